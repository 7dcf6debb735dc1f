"""Arithmetic of 8- and 16-bit integers: computed with 32 bits, and wrapped, so that no backend can do otherwise.

Every sum, difference, product and shift has the same low bits in both; everything else sees operands that are wrapped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from dmc.errors import ImportFailure
from dmc.importer.forward.random_numbers.distributions import DISTRIBUTIONS
from dmc.importer.torch_internals import functional_form, is_mutable, is_view, name_of, numbers_of

NARROW = (torch.int8, torch.int16, torch.uint8)
_WIDE = torch.int32
# The argument that may be a mask, which unsigned numbers are, too.
_MASKS = {**dict.fromkeys(("index", "index_put", "_unsafe_index", "masked_fill", "masked_scatter"), 1), "where": 0}
_MOVES = ("clone", "copy", "contiguous", "detach", "alias", "lift_fresh_copy", "to", "_to_copy", "type_as")


def computed_wide(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], expected: Any) -> Any:
    """The result of an operation with narrow operands or results, which is `expected` to have these types.

    NotImplemented where there are none, or where nothing is computed.
    """
    tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    narrow = [each for each in tensors if each.dtype in NARROW]
    is_touched = narrow or any(_is_narrow(each) for each in pytree.tree_leaves(expected))
    if not isinstance(target, OpOverload) or not is_touched or is_view(target):
        return NotImplemented
    name = name_of(target).rstrip("_")
    # What is drawn is converted last.
    if name in _MOVES or target in DISTRIBUTIONS or name == "bernoulli":
        return NotImplemented
    mask = pytree.tree_leaves(args[_MASKS[name]]) if name in _MASKS else []
    if any(isinstance(each, Tensor) and each.dtype == torch.uint8 for each in mask):
        raise ImportFailure(None, "takes unsigned integers for a mask", hint="convert the mask with .bool()")
    if len(narrow) == len(tensors):
        _check_numbers(numbers_of(target, args, kwargs), [each.dtype for each in narrow])
    function = functional_form(target) if is_mutable(target) else target
    if function is None:
        raise ImportFailure(None, "writes integers of 8 or 16 bits in place", hint="use the form that does not")
    if name == "pow" and isinstance(args[0], Tensor) and args[0].is_floating_point() and _is_narrow(args[1]):
        result = _Power.apply(args[0], args[1]).to(expected.dtype)
    else:
        result = pytree.tree_map(_wrapped, function(*_widened(args), **_widened(dict(kwargs))), expected)
    return args[0].copy_(result) if is_mutable(target) else result


class _Power(torch.autograd.Function):
    """x ** y, whose gradient is x to the power of y - 1: narrow in eager, where -128 - 1 is 127."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x ** y.to(_WIDE)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        wide = y.to(_WIDE)
        below = (wide - 1).to(y.dtype).to(_WIDE)
        return torch.where(wide == 0, 0.0, grad_outputs[0] * (wide * x**below)).sum_to_size(x.shape), None


def _check_numbers(numbers: Sequence[Any], dtypes: Sequence[torch.dtype]) -> None:
    """Eager may convert a Python number to the narrow type first, wrap it, or refuse it."""
    ranges = [torch.iinfo(dtype) for dtype in dtypes]
    for number in numbers:
        if isinstance(number, int) and any(not each.min <= number <= each.max for each in ranges):
            fact = f"computes with {number} and {dtypes[0]}, which cannot hold it"
            raise ImportFailure(None, fact, hint="convert the tensor first, as in x.int()")


def _is_narrow(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in NARROW


def _widened(values: Any) -> Any:
    """Narrow tensors and types among `values` as wide ones."""

    def widen(value: Any) -> Any:
        if _is_narrow(value):
            return value.to(_WIDE)
        return _WIDE if isinstance(value, torch.dtype) and value in NARROW else value

    return pytree.tree_map(widen, values)


def _wrapped(result: Any, expected: Any) -> Any:
    return result.to(expected.dtype) if isinstance(result, Tensor) else result
