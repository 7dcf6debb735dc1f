"""Element types of MLIR in numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from dmc.errors import DmcError

Array = NDArray[Any]

# By MLIR's name. In memory an i1 takes a byte.
DTYPES: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "i1": np.bool_,
    "index": np.int64,
}


def numpy_type(name: str) -> np.dtype[Any]:
    """The numpy type of an element type of MLIR; raises DmcError if there is none."""
    if name not in DTYPES:
        raise DmcError(f"element type {name}", "has no counterpart in numpy", f"it must be one of {', '.join(DTYPES)}")
    return np.dtype(DTYPES[name])
