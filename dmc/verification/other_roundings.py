"""Eager with other roundings: how uncertain results are that were rounded on their way.

What an operation gives is compared with what it gives in float64. Where they differ, it was rounded, and may as well be
off by that much to either side; where they do not, it is exact and stays. A NaN that an operation gives has either
sign.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
NARROW = (torch.bfloat16, torch.float16)
EVERY = (*NARROW, torch.float32, torch.float64)
# What no rounding leaves: others may refuse it, as binary cross entropy does a probability above 1.
RANGES = {
    aten._softmax.default: (0.0, 1.0),
    aten.cos.default: (-1.0, 1.0),
    aten.erf.default: (-1.0, 1.0),
    aten.exp.default: (0.0, torch.inf),
    aten.hardsigmoid.default: (0.0, 1.0),
    aten.sigmoid.default: (0.0, 1.0),
    aten.sigmoid_.default: (0.0, 1.0),
    aten.sin.default: (-1.0, 1.0),
    aten.tanh.default: (-1.0, 1.0),
    aten.tanh_.default: (-1.0, 1.0),
}
EVERYWHERE = (-torch.inf, torch.inf)
DIFFERENCES = (aten.add.Tensor, aten.add_.Tensor, aten.sub.Tensor, aten.sub_.Tensor)


class OtherRoundings(TorchDispatchMode):
    """Within it, every element that an operation rounds is off by another rounding, up or down as `seed` draws it.

    types: of the results that are; by default of every floating type.
    """

    def __init__(self, seed: int, types: Collection[torch.dtype] = EVERY) -> None:
        super().__init__()
        self.types = types
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # First: an operation may write its operands.
        exact = None if func.is_view else _in_float64(func, args, kwargs or {})
        noise = _noise(*args[:2]) if func in DIFFERENCES and not kwargs else None
        result = func(*args, **(kwargs or {}))
        if func is aten._softmax_backward_data.default and result.dtype in self.types:
            self._round_difference(result, *args[:3])
        elif exact is not None:
            for found, right in zip(pytree.tree_leaves(result), pytree.tree_leaves(exact), strict=True):
                # Of what is not asked for, PyTorch may compute a result in one type only.
                if isinstance(found, Tensor) and isinstance(right, Tensor) and found.dtype in self.types:
                    self._round(found, right)
                    found.clamp_(*RANGES.get(func, EVERYWHERE))
        if noise is not None and result.dtype in self.types and self._signs(torch.empty(())) > 0:
            result.masked_fill_((result.abs() <= noise) & result.isfinite(), 0.0)
        return result

    def _round(self, found: Tensor, exact: Tensor) -> None:
        wide = found.double()
        error = torch.where(wide.isfinite() & exact.isfinite(), (wide - exact).abs(), 0.0)
        unit = wide.abs() * torch.finfo(found.dtype).eps
        signs, step = self._signs(found), torch.maximum(error, unit)
        if found.dtype in NARROW:
            # The neighbours on both sides of the exact number, too.
            step = torch.where(self._signs(found) > 0, step, step * torch.rand(found.shape, generator=self.generator))
        # What sign a NaN has is left open.
        other = torch.where(wide.isnan(), wide.copysign(signs), wide)
        # A number of either sign may be zero.
        may_vanish = (step >= exact.abs()) & (self._signs(found) > 0)
        found.copy_(torch.where(error > 0.0, torch.where(may_vanish, 0.0, exact + signs * step), other))

    def _round_difference(self, found: Tensor, dy: Tensor, y: Tensor, dim: int) -> None:
        """The gradient of a softmax is y · (dy - Σ y · dy). Attention takes the sum from its results, as FlashAttention
        does: there the two do not cancel where y is 1. Of few digits, all of this is exact.
        """
        if torch.equal(dy, dy.half().to(dy.dtype)) and torch.equal(y, y.half().to(y.dtype)):
            return
        unit = dy.double().abs().amax(dim, keepdim=True) * y.double() * torch.finfo(found.dtype).eps
        found.copy_(found.double() + self._signs(found) * unit.nan_to_num(0.0, 0.0, 0.0))

    def _signs(self, like: Tensor) -> Tensor:
        return torch.randint(0, 2, like.shape, generator=self.generator) * 2 - 1


def _noise(x: Any, y: Any) -> Tensor | None:
    """What rounding may leave of x - y where the two are equal; None if nothing has rounded them, as few digits say.

    Then all of a difference may vanish, or nothing. Of narrow types one rounding counts, of others a few, one after the
    other.
    """
    if not all(isinstance(each, Tensor) and each.is_floating_point() for each in (x, y)):
        return None
    if all(torch.equal(each, each.half().to(each.dtype)) for each in (x, y)):
        return None
    unit = max((2 if each.dtype in NARROW else 8) * torch.finfo(each.dtype).eps for each in (x, y))
    return unit * torch.maximum(x.abs(), y.abs())


def _in_float64(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The results of an operation on copies in float64; None if it does not compute, or not in that type."""
    given = pytree.tree_leaves((args, kwargs))
    floating = any(isinstance(each, Tensor) and each.is_floating_point() for each in given)
    if not floating or any(isinstance(each, torch.UntypedStorage) for each in given):
        return None

    def wide(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.double().clone() if value.is_floating_point() else value.clone()

    args, kwargs = pytree.tree_map(wide, (args, dict(kwargs)))
    try:
        return func(*args, **kwargs)
    # PyTorch has no other error for an operation without a kernel for a type. Its results count as exact then, which
    # excuses nothing.
    except RuntimeError:
        return None
