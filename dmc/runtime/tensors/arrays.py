"""User data (torch tensors, numpy arrays, Python numbers) as numpy arrays of an exact type; arrays as bytes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dmc.dtypes import describe, dtype_of, mlir_name
from dmc.errors import DmcError
from dmc.program.signature import TensorSpec


def to_array(value: Any, spec: TensorSpec, place: str, error: type[DmcError]) -> np.ndarray:
    """`value` as an array of `spec`'s shape and element type, without a copy where the memory allows it.

    Accepts numpy arrays, torch tensors (including bfloat16, on any device), objects with `__array__`, and Python
    numbers for shape (). Nothing is cast: raises `error` at `place` if shape or element type differ.
    """
    array = _scalar(value, spec) if isinstance(value, (bool, int, float)) else _array(value, place, error)
    if array.shape == spec.shape and array.dtype == dtype_of(spec.dtype).numpy:
        return array
    expected = describe(spec.dtype, spec.shape)
    got = describe(mlir_name(array.dtype), array.shape)
    raise error(place, f"expected {expected}, got {got}", hint=_way_out(array, spec))


def bytes_of(array: np.ndarray) -> np.ndarray:
    """The bytes of an array in row-major order, without a copy where it lies so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """An array of zeros that takes up the memory of one, read-only."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def placeholder(spec: TensorSpec) -> np.ndarray:
    """What stands for a tensor without numbers: zeros."""
    return zeros(spec.shape, dtype_of(spec.dtype).numpy)


def are_zeros(array: np.ndarray) -> bool:
    """Whether an array is like those of `zeros`: all elements lie in the memory of one, which is zero."""
    return not any(array.strides) and not any(array[(slice(1),) * array.ndim].tobytes())


def _scalar(value: bool | float, spec: TensorSpec) -> np.ndarray:
    """A Python number converts to the requested element type from int to float, never the reverse."""
    dtype = dtype_of(spec.dtype).numpy
    natural = np.asarray(value)
    if isinstance(value, bool) or dtype.kind == "b":
        return natural
    if dtype.kind in "iu" and isinstance(value, int):
        info = np.iinfo(dtype)
        return np.asarray(value, dtype) if info.min <= value <= info.max else natural
    # bfloat16 has numpy's kind "V".
    return np.asarray(value, dtype) if dtype.kind in "fV" else natural


def _array(value: Any, place: str, error: type[DmcError]) -> np.ndarray:
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    # A tensor exists only if its framework is loaded, so the framework need not be imported to recognise one.
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(value, torch.Tensor):
            return _torch_array(torch, value)
        if hasattr(value, "__array__"):
            return np.asarray(value)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as cause:
        raise error(place, f"cannot be read as a dense array ({cause})", hint="pass a dense tensor") from cause
    raise error(place, f"expected a tensor, got {type(value).__name__}", hint="pass a torch tensor or a numpy array")


def _torch_array(torch: Any, tensor: Any) -> np.ndarray:
    tensor = tensor.detach().cpu()
    if tensor.dtype is not torch.bfloat16:
        return tensor.resolve_conj().resolve_neg().numpy()
    # numpy has no native bfloat16: pass the bits and set the type on the other side.
    return tensor.contiguous().view(torch.int16).numpy().view(dtype_of("bf16").numpy)


_FIXED = "shapes are fixed when a step is compiled"
_MORE = "compile for this shape as well (example=[…])"


def _way_out(array: np.ndarray, spec: TensorSpec) -> str:
    if array.shape != spec.shape:
        rows, whole = array.shape[:1], spec.shape[:1]
        if array.shape[1:] == spec.shape[1:] and rows < whole:
            return f"{_FIXED}: leave a last batch out (drop_last=True of a DataLoader), pad it, or {_MORE}"
        return f"{_FIXED}: pad or crop the data, or {_MORE}"
    return f"convert the data to {dtype_of(spec.dtype).numpy.name}"
