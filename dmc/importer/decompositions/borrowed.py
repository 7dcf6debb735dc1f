"""Decompositions that PyTorch has, of operations that torch-mlir does not lower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import get_decompositions

aten = torch.ops.aten
_NAMES = (
    "addr dist frexp heaviside hypot linalg_cross logit mvlgamma renorm sinc special_entr"
    " special_log_ndtr special_xlog1py trace unfold_backward unfold_copy xlogy"
).split()
OWN: dict[Any, Callable[..., Any]] = get_decompositions([getattr(aten, name) for name in _NAMES])
