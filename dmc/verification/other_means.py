"""Eager with other means: how uncertain results are whose means were added up in one order of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dmc.verification.roundings import MARGIN, UNIT, of_order

aten = torch.ops.aten


class OtherMeans(TorchDispatchMode):
    """Inside, means are off, up or down as `seed` draws it, by the share of which `MARGIN` are the effect of the order
    of terms, and at least by a unit in the last place.

    In one order the mean of a constant is exact, in another it is rounded, and a normalisation multiplies what is left
    of the constant then by up to 1 / sqrt(eps).
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in _MEANS:
            mean = result[1] if func is aten.var_mean.correction else result
            mean.add_(self._error(mean, args[0]))
        if func in _NORMALISATIONS and result[1].numel():
            y, mean, rstd = result[:3]
            error = self._error(mean, args[0])
            mean.add_(error)
            y.sub_(_NORMALISATIONS[func](error * rstd, *args).to(y.dtype))
        return result

    def _error(self, mean: Tensor, terms: Tensor) -> Tensor:
        share = max(UNIT, of_order(terms.numel() // max(1, mean.numel())) / MARGIN)
        # Equal columns are added up alike: their errors do not cancel, nor those of several means of one constant.
        values, alike = mean.detach().unique(return_inverse=True)
        drawn = torch.randint(0, 2, values.shape, generator=self.generator) * 2 - 1
        drawn[:1] = 1
        signs = drawn[alike]
        # Terms that cancel leave zero, or what rounding leaves of them.
        largest = terms.detach().abs().amax() if terms.numel() else 0.0
        vanishes = (mean.abs() <= UNIT * largest) & (signs > 0)
        return torch.where(vanishes, -mean, mean * signs * share)


def _of_channels(shift: Tensor, x: Tensor, weight: Tensor | None, *_: Any) -> Tensor:
    # As many weights as channels, of whatever shape.
    shift = shift if weight is None else shift * weight.reshape(-1)
    return shift.reshape(-1, *[1] * (x.dim() - 2)).expand_as(x)


def _of_rows(shift: Tensor, x: Tensor, shape: Any, weight: Tensor | None, *_: Any) -> Tensor:
    return shift.expand_as(x) if weight is None else shift * weight


def _of_groups(shift: Tensor, x: Tensor, weight: Tensor | None, *_: Any) -> Tensor:
    channels = shift.repeat_interleave(x.shape[1] // shift.shape[1], 1)
    channels = channels if weight is None else channels * weight.reshape(-1)
    return channels.reshape(*channels.shape, *[1] * (x.dim() - 2)).expand_as(x)


_MEANS = {aten.mean.default, aten.mean.dim, aten.var_mean.correction}
# From the error of a mean, divided by the standard deviation, to that of the result.
_NORMALISATIONS: dict[Any, Callable[..., Tensor]] = {
    aten.native_batch_norm.default: _of_channels,
    aten.native_layer_norm.default: _of_rows,
    aten.native_group_norm.default: _of_groups,
}
