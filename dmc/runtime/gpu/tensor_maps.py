"""Tensor maps, through which a GPU's copy engine sees arrays in memory: made when the arena is in place."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from dmc.dtypes import dtype_of
from dmc.errors import DmcError
from dmc.program.code import TensorMap
from dmc.program.sizes import element_bytes

_BYTES, _ALIGNMENT = 128, 64
# CUDA's number of CUtensorMapL2promotion for rows of 128 bytes.
_ROWS_OF_128 = 2
# The first version of CUDA that knows tensor maps.
_VERSION = 12000


class TensorMaps:
    """Encodes tensor maps by the driver that `driver`, NVIDIA's bindings, have loaded.

    The bindings' own type for maps is not aligned as the driver needs it, so that its function is called as it is.
    """

    def __init__(self, driver: Any) -> None:
        status, function, _ = driver.cuGetProcAddress(b"cuTensorMapEncodeTiled", _VERSION, 0)
        if status != driver.CUresult.CUDA_SUCCESS or not function:
            fact = f"cannot make tensor maps ({status})"
            raise DmcError("device 'cuda'", fact, hint="install a driver for CUDA 12 or later")
        array, number = ctypes.c_void_p, ctypes.c_int
        signature = (array, number, ctypes.c_uint32, ctypes.c_uint64, array, array, array, array, *(number,) * 4)
        self._encode = ctypes.CFUNCTYPE(number, *signature)(int(function))

    def arguments(self, shown: TensorMap, address: int) -> tuple[Any, ...]:
        """What an entry takes for an array at this address: the map, its shape and its strides."""
        shape, strides = map(np.int32, shown.shape), map(np.int64, shown.strides)
        return self._encoded(shown, address), *shape, *strides

    def _encoded(self, shown: TensorMap, address: int) -> np.ndarray:
        room = np.zeros(_BYTES + _ALIGNMENT, np.uint8)
        start = -room.ctypes.data % _ALIGNMENT
        made = room[start : start + _BYTES]
        # The driver counts dimensions from the one whose elements are neighbours.
        sizes = np.array(shown.shape[::-1], np.uint64)
        strides = np.array(shown.strides[-2::-1], np.uint64) * np.uint64(element_bytes(shown.dtype))
        box, every = np.array(shown.box[::-1], np.uint32), np.ones(len(shown.box), np.uint32)
        arrays = (each.ctypes.data for each in (sizes, strides, box, every))
        rank, dtype = len(shown.shape), dtype_of(shown.dtype).tensor_map
        status = self._encode(made.ctypes.data, dtype, rank, address, *arrays, 0, shown.swizzle, _ROWS_OF_128, 0)
        if status:
            raise DmcError("device 'cuda'", f"cannot map {shown} ({status})", hint="please report the model")
        # As one value: a kernel gets it whole.
        return made.view(np.dtype([("map", f"V{_BYTES}")]))
