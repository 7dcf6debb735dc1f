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
        result = func(*args, **(kwargs or {}))
        if func is aten._softmax_backward_data.default and result.dtype in self.types:
            self._round_difference(result, *args[:3])
        elif exact is not None:
            for found, right in zip(pytree.tree_leaves(result), pytree.tree_leaves(exact), strict=True):
                # Of what is not asked for, PyTorch may compute a result in one type only.
                if isinstance(found, Tensor) and isinstance(right, Tensor) and found.dtype in self.types:
                    self._round(found, right)
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
