"""Complex numbers as pairs of real tensors: rotary embeddings, and what Fourier transforms give."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

Number = int | float | complex


@dataclass(frozen=True)
class Complex:
    """A complex tensor: its real and its imaginary part."""

    re: Tensor
    im: Tensor


pytree.register_dataclass(Complex)
Operand = Complex | Tensor | Number


def is_complex(value: Any) -> TypeGuard[Complex]:
    """Whether a value is a pair; for trees of them."""
    return isinstance(value, Complex)


def pair(x: Operand, like: Tensor | None = None) -> Complex:
    """A number or a tensor as a pair; numbers take the type of `like`."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, Tensor):
        return Complex(x, torch.zeros_like(x))
    assert like is not None, "one operand is a tensor"
    value = complex(x)
    return Complex(like.new_full([], value.real), like.new_full([], value.imag))


def times(x: Operand, y: Operand, product: Callable[[Any, Any], Tensor] = operator.mul) -> Complex:
    """The product of two operands of which one is complex, or another bilinear function."""
    # A real tensor and a complex number: a pair and a number.
    if isinstance(x, Tensor) and isinstance(y, complex):
        x = pair(x)
    if isinstance(y, Tensor) and isinstance(x, complex):
        y = pair(y)
    if not isinstance(x, Complex) and not isinstance(x, complex):
        assert isinstance(y, Complex)
        return Complex(product(x, y.re), product(x, y.im))
    if not isinstance(y, Complex) and not isinstance(y, complex):
        assert isinstance(x, Complex)
        return Complex(product(x.re, y), product(x.im, y))
    a, b = pair(x, _part(y)), pair(y, _part(x))
    return Complex(product(a.re, b.re) - product(a.im, b.im), product(a.re, b.im) + product(a.im, b.re))


def _part(x: Operand) -> Tensor | None:
    return x.re if isinstance(x, Complex) else None


def _plus(x: Operand, y: Operand, *, alpha: float = 1) -> Complex:
    a, b = pair(x, _part(y)), pair(y, _part(x))
    return Complex(a.re + alpha * b.re, a.im + alpha * b.im)


def _minus(x: Operand, y: Operand, *, alpha: float = 1) -> Complex:
    return _plus(x, y, alpha=-alpha)


def _over(x: Operand, y: Operand) -> Complex:
    if isinstance(y, Complex):
        # The square of a part may overflow.
        largest = torch.maximum(y.re.abs(), y.im.abs()).detach()
        largest = torch.where(largest > 0.0, largest, 1.0)
        re, im = y.re / largest, y.im / largest
        size = re.square() + im.square()
        return times(x, Complex(re / size / largest, -im / size / largest))
    return times(x, 1.0 / y)


def _conjugate(x: Complex) -> Complex:
    return Complex(x.re, -x.im)


def _polar(size: Tensor, angle: Tensor) -> Complex:
    return Complex(size * angle.cos(), size * angle.sin())


class _SlopeOfAbsolute(torch.autograd.Function):
    """A size, which has a sign here: its gradient is that of its absolute value, as eager's."""

    @staticmethod
    def forward(ctx: Any, size: Tensor) -> Tensor:
        ctx.save_for_backward(size)
        return size.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (size,) = ctx.saved_tensors
        return grad_outputs[0] * size.sign()


def _nonzero(x: Complex) -> tuple[Tensor, Complex]:
    """Where a number is zero; and one in place of zero, where functions have no slope."""
    is_zero = (x.re == 0) & (x.im == 0)
    return is_zero, Complex(torch.where(is_zero, 1.0, x.re), x.im)


def _size(x: Complex) -> Tensor:
    is_zero, other = _nonzero(x)
    return torch.where(is_zero, 0.0, torch.hypot(other.re, other.im))


def _angle(x: Complex) -> Tensor:
    is_zero, other = _nonzero(x)
    # Zeros have signs.
    return torch.where(is_zero, torch.atan2(x.im, x.re).detach(), torch.atan2(other.im, other.re))


def _stacked(x: Complex) -> Tensor:
    return torch.stack([x.re, x.im], -1)


def _of_stacked(x: Tensor) -> Complex:
    return Complex(x[..., 0], x[..., 1])


def each_part(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function that is linear in its complex operands; real ones are places and sizes."""

    def part(name: str) -> Any:
        chosen = pytree.tree_map(
            lambda each: getattr(each, name) if is_complex(each) else each, (args, kwargs), is_leaf=is_complex
        )
        return function(*chosen[0], **chosen[1])

    return pytree.tree_map(Complex, part("re"), part("im"))


def _each_part_of_all(function: Callable[..., Any], tensors: list[Complex | Tensor], *args: Any) -> Any:
    """One that takes a list, of which some may be real."""
    return each_part(function, [pair(each) for each in tensors], *args)


def _chosen(mask: Tensor, x: Operand, y: Operand) -> Complex:
    a, b = pair(x, _part(y)), pair(y, _part(x))
    return Complex(torch.where(mask, a.re, b.re), torch.where(mask, a.im, b.im))


# The same of both parts.
_LINEAR = (
    "alias clone contiguous detach diagonal expand expand_as flatten flip gather index index_select mean movedim narrow"
    " neg permute repeat reshape roll select slice split squeeze sum t transpose unbind unflatten unsqueeze"
).split()
RULES: dict[str, Callable[..., Any]] = {
    **{name: partial(each_part, getattr(torch.ops.aten, name)) for name in _LINEAR},
    **dict.fromkeys(("view", "_unsafe_view"), partial(each_part, torch.reshape)),
    **{name: partial(_each_part_of_all, getattr(torch, name)) for name in ("cat", "stack")},
    **{name: partial(times, product=getattr(torch, name)) for name in ("matmul", "mm", "bmm")},
    **dict.fromkeys(("conj", "_conj", "conj_physical"), _conjugate),
    **dict.fromkeys(("resolve_conj", "resolve_neg"), lambda x: x),
    "abs": _size,
    "add": _plus,
    "angle": _angle,
    # Copies: the parts may be written afterwards.
    "complex": lambda re, im: Complex(*(each.clone() for each in torch.broadcast_tensors(re, im))),
    "div": _over,
    "exp": lambda x: _polar(x.re.exp(), x.im),
    "imag": lambda x: x.im,
    "mul": times,
    "polar": lambda size, angle: _polar(_SlopeOfAbsolute.apply(size), angle),
    "real": lambda x: x.re,
    "reciprocal": lambda x: _over(1.0, x),
    "rsub": lambda x, y, alpha=1: _plus(y, x, alpha=-alpha),
    "square": lambda x: times(x, x),
    "sub": _minus,
    "view_as_complex": _of_stacked,
    "view_as_real": _stacked,
    "where": _chosen,
}
