"""Element types: MLIR's names and numpy's, IREE's and safetensors' equivalents."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from dmc.errors import DmcError
from dmc.runtime.signature import TensorSpec


@dataclass(frozen=True)
class DType:
    """One element type.

    `name` is MLIR's; `hal` the member of `iree.runtime.HalElementType` that a compiled function checks its arguments
    against (IREE's integers are signless, like MLIR's); `safetensors` the name in a safetensors header.
    """

    name: str
    numpy: np.dtype
    hal: str
    safetensors: str


_TABLE = (
    DType("f64", np.dtype(np.float64), "FLOAT_64", "F64"),
    DType("f32", np.dtype(np.float32), "FLOAT_32", "F32"),
    DType("f16", np.dtype(np.float16), "FLOAT_16", "F16"),
    DType("bf16", np.dtype(ml_dtypes.bfloat16), "BFLOAT_16", "BF16"),
    DType("i64", np.dtype(np.int64), "INT_64", "I64"),
    DType("i32", np.dtype(np.int32), "INT_32", "I32"),
    DType("i16", np.dtype(np.int16), "INT_16", "I16"),
    DType("i8", np.dtype(np.int8), "INT_8", "I8"),
    DType("ui8", np.dtype(np.uint8), "INT_8", "U8"),
    # A boolean takes one byte in memory visible to the host.
    DType("i1", np.dtype(np.bool_), "BOOL_8", "BOOL"),
)

_BY_NAME = {dtype.name: dtype for dtype in _TABLE}
_STORED = {dtype.safetensors: dtype for dtype in _TABLE}
_BY_NUMPY = {dtype.numpy: dtype for dtype in _TABLE}


def dtype_of(name: str) -> DType:
    """The element type of an MLIR name; raises DmcError for a type the runtime does not support."""
    if name not in _BY_NAME:
        raise DmcError(f"element type {name!r}", f"not one of {', '.join(_BY_NAME)}", hint="use one of these")
    return _BY_NAME[name]


def stored_dtype(name: str) -> DType | None:
    """The element type of safetensors' name; None for one that the runtime does not support."""
    return _STORED.get(name)


def is_floating(name: str) -> bool:
    """Whether an MLIR name is that of a floating-point type."""
    return name.startswith(("f", "bf"))


def mlir_name(dtype: np.dtype) -> str:
    """MLIR's name of a numpy element type, or numpy's own name where MLIR's table has none (for messages)."""
    known = _BY_NUMPY.get(dtype)
    return known.name if known else dtype.name


def byte_count(spec: TensorSpec) -> int:
    """Bytes of a dense tensor in memory (a boolean takes one byte)."""
    return math.prod(spec.shape) * dtype_of(spec.dtype).numpy.itemsize


def describe(dtype: str, shape: tuple[int, ...]) -> str:
    """`f32[2, 3]`: a tensor type as messages and tables print it."""
    return f"{dtype}[{', '.join(map(str, shape))}]"
