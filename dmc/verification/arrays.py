"""torch tensors as numpy arrays, and back, bit for bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from dmc.dtypes import Array

# What a copy may take, relative to the elements alone.
_SPREAD = 4


def copy_of(tensor: Tensor) -> Tensor:
    """A copy that lies in memory as its original does: `clone` makes elements that share memory distinct, and strides
    decide what is a view of it.
    """
    tensor = tensor.detach()
    if tensor.numel() == 0 or tensor.layout is not torch.strided:
        return tensor.clone()
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    # A column of a large table: its gaps are not worth copying.
    if span > _SPREAD * tensor.numel():
        return tensor.clone()
    return tensor.as_strided((span,), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)


def array_of(tensor: Tensor) -> Array:
    """A copy of a tensor."""
    return view_of(tensor).copy()


def view_of(tensor: Tensor) -> Array:
    """An array as a tensor, without a copy where possible."""
    tensor = tensor.detach().resolve_conj().resolve_neg().cpu()
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def tensor_of(array: Array) -> Tensor:
    """A copy of an array."""
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))
