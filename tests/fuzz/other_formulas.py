"""Eager where its own result is one of several: infinities, and operands that share memory with what is written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class OtherFormulas(TorchDispatchMode):
    """Inside, the gradient of a layer normalisation is computed from normalised elements, and what an operation in
    place reads beside is copied before.

    PyTorch's kernel for a CPU multiplies the elements by one sum and adds another (`layer_norm_kernel.cpp`): once the
    sums are infinite, they cancel elsewhere than in its kernel for GPUs (`layer_norm_kernel.cu`). `x.copy_(x[:, 0])`
    reads elements of which it may have written some; PyTorch refuses that only where it is easy to see.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.is_mutable:
            args = (args[0], *(each.clone() if _overlaps(each, args[0]) else each for each in args[1:]))
        result = func(*args, **(kwargs or {}))
        if func is aten.native_layer_norm_backward.default and result[0] is not None:
            return (_layer_norm_backward(*args[:6]), *result[1:])
        return result


def _overlaps(read: Any, written: Any) -> bool:
    """Whether tensors share memory, but are not the same elements in the same order."""
    if not isinstance(read, Tensor) or not isinstance(written, Tensor):
        return False
    is_same = (read.shape, read.stride()) == (written.shape, written.stride()) and read.data_ptr() == written.data_ptr()
    return not is_same and read.untyped_storage().data_ptr() == written.untyped_storage().data_ptr()


def _layer_norm_backward(
    dy: Tensor, x: Tensor, shape: list[int], mean: Tensor, rstd: Tensor, weight: Tensor | None
) -> Tensor:
    dims = list(range(x.dim() - len(shape), x.dim()))
    normal = (x.to(mean.dtype) - mean) * rstd
    scaled = dy.to(mean.dtype) * (1 if weight is None else weight)
    offset, slope = scaled.mean(dims, keepdim=True), (scaled * normal).mean(dims, keepdim=True)
    return ((scaled - offset - normal * slope) * rstd).to(x.dtype)
