"""Decompositions that PyTorch has, of operations that torch-mlir does not lower, or not as eager; copies of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import get_decompositions

aten = torch.ops.aten
_NAMES = (
    "addr dist heaviside linalg_cross logit mvlgamma renorm sinc special_entr"
    " special_log_ndtr special_xlog1py trace unfold_backward unfold_copy xlogy"
).split()
_VIEWS = "alias expand narrow permute squeeze t transpose unbind unsqueeze view".split()


def _copies(view: str) -> dict[Any, Callable[..., Any]]:
    """A copy of a view, which a step need not make."""
    copy, plain = getattr(aten, f"{view}_copy"), getattr(aten, view)
    return {getattr(copy, each): getattr(plain, each) for each in plain.overloads() if each in copy.overloads()}


_GROUP_NORM = get_decompositions([aten.native_group_norm])[aten.native_group_norm.default]


def _group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *sizes: Any) -> tuple[Tensor, Tensor, Tensor]:
    """With wider weights or biases eager keeps the mean and the deviation in their type."""
    wide = next((each.dtype for each in (weight, bias) if each is not None), x.dtype)
    if wide == x.dtype:
        return _GROUP_NORM(x, weight, bias, *sizes)
    y, mean, rstd = _GROUP_NORM(x.to(wide), weight, bias, *sizes)
    return y.to(x.dtype), mean, rstd


OWN: dict[Any, Callable[..., Any]] = {
    aten.native_group_norm.default: _group_norm,
    **get_decompositions([getattr(aten, name) for name in _NAMES]),
    **{copy: plain for view in _VIEWS for copy, plain in _copies(view).items()},
}
