"""Element types, each said once: MLIR's name, and those of numpy, PyTorch, Triton, IREE and the libraries of GPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from dmc.errors import DmcError

Array = NDArray[Any]
# What the libraries for attention take, and what factors and results of the libraries' products are.
Narrow: TypeAlias = Literal["bf16", "f16"]
Factor: TypeAlias = Literal["f32", "bf16", "f16"]


@dataclass(frozen=True)
class DType:
    """One element type.

    `name` is MLIR's; `hal` the member of `iree.runtime.HalElementType` that a compiled function checks its arguments
    against (IREE's integers are signless, like MLIR's); `safetensors` the name in a safetensors header; `torch`
    PyTorch's. Of what Triton and the libraries do not take, the name is empty: `triton` in `triton.language`, `nccl` of
    `ncclDataType_t`, `cudnn` of `cudnn.data_type`. CUDA's numbers are those of `cudaDataType_t` and, of what a tensor
    map may view, `CUtensorMapDataType`.
    """

    name: str
    numpy: np.dtype
    hal: str
    safetensors: str
    torch: str
    triton: str = ""
    nccl: str = ""
    cudnn: str = ""
    cuda: int | None = None
    tensor_map: int | None = None

    @property
    def pointee(self) -> str:
        """How a signature of Triton's compiler calls it."""
        return self.name.replace("f", "fp", 1) if self.name.startswith("f") else self.name


_BF16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = (
    DType("f64", np.dtype(np.float64), "FLOAT_64", "F64", "float64", "float64", "FLOAT64"),
    DType("f32", np.dtype(np.float32), "FLOAT_32", "F32", "float32", "float32", "FLOAT32", "", 0, 7),
    DType("f16", np.dtype(np.float16), "FLOAT_16", "F16", "float16", "float16", "FLOAT16", "HALF", 2, 6),
    DType("bf16", _BF16, "BFLOAT_16", "BF16", "bfloat16", "bfloat16", "BFLOAT16", "BFLOAT16", 14, 9),
    DType("i64", np.dtype(np.int64), "INT_64", "I64", "int64", "int64", "INT64"),
    DType("i32", np.dtype(np.int32), "INT_32", "I32", "int32", "int32", "INT32"),
    DType("i16", np.dtype(np.int16), "INT_16", "I16", "int16", "int16"),
    DType("i8", np.dtype(np.int8), "INT_8", "I8", "int8", "int8", "INT8"),
    DType("ui8", np.dtype(np.uint8), "INT_8", "U8", "uint8"),
    # A boolean takes one byte in memory visible to the host.
    DType("i1", np.dtype(np.bool_), "BOOL_8", "BOOL", "bool", "int1"),
)

_BY_NAME = {dtype.name: dtype for dtype in DTYPES}
_STORED = {dtype.safetensors: dtype for dtype in DTYPES}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES}
NARROW: dict[str, Narrow] = {name: name for name in get_args(Narrow)}
FACTORS: dict[str, Factor] = {name: name for name in get_args(Factor)}


class _Typed(Protocol):
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


def dtype_of(name: str) -> DType:
    """The element type of an MLIR name; raises DmcError for one that steps cannot have."""
    if name not in _BY_NAME:
        raise DmcError(f"element type {name!r}", f"not one of {', '.join(_BY_NAME)}", hint="use one of these")
    return _BY_NAME[name]


def numpy_type(name: str) -> np.dtype[Any]:
    """The numpy type of an element type of MLIR, or of an index; raises DmcError if there is none."""
    return np.dtype(np.int64) if name == "index" else dtype_of(name).numpy


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


def byte_count(spec: _Typed) -> int:
    """Bytes of a dense tensor in memory (a boolean takes one byte)."""
    return math.prod(spec.shape) * dtype_of(spec.dtype).numpy.itemsize


def describe(dtype: str, shape: tuple[int, ...]) -> str:
    """`f32[2, 3]`: a tensor type as messages and tables print it."""
    return f"{dtype}[{', '.join(map(str, shape))}]"
