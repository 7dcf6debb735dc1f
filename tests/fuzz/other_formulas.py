"""Eager with the formulas of its kernels for GPUs, where those for a CPU give another infinity or NaN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class OtherFormulas(TorchDispatchMode):
    """Inside, the gradient of a layer normalisation is computed from normalised elements.

    PyTorch's kernel for a CPU multiplies the elements by one sum and adds another (`layer_norm_kernel.cpp`): once the
    sums are infinite, they cancel elsewhere than in its kernel for GPUs (`layer_norm_kernel.cu`).
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is aten.native_layer_norm_backward.default and result[0] is not None:
            return (_layer_norm_backward(*args[:6]), *result[1:])
        return result


def _layer_norm_backward(
    dy: Tensor, x: Tensor, shape: list[int], mean: Tensor, rstd: Tensor, weight: Tensor | None
) -> Tensor:
    dims = list(range(x.dim() - len(shape), x.dim()))
    normal = (x.to(mean.dtype) - mean) * rstd
    scaled = dy.to(mean.dtype) * (1 if weight is None else weight)
    offset, slope = scaled.mean(dims, keepdim=True), (scaled * normal).mean(dims, keepdim=True)
    return ((scaled - offset - normal * slope) * rstd).to(x.dtype)
