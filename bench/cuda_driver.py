"""The CUDA driver by ctypes, so that what is measured is the driver's time, not that of bindings."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

FUNCTION_ATTRIBUTES = {1: "static_shared", 3: "local_bytes", 4: "registers", 8: "max_dynamic_shared"}
_RELAXED, _NON_BLOCKING, _NO_TIMING, _HOST = 2, 1, 2, 1


class KernelParams(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("func", c_void_p),
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("params", POINTER(c_void_p)),
        ("extra", c_void_p),
        ("kern", c_void_p),
        ("ctx", c_void_p),
    )


class MemsetParams(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS_v1."""

    _fields_ = (
        ("target", c_ulonglong),
        ("pitch", c_size_t),
        ("value", c_uint),
        ("item", c_uint),
        ("width", c_size_t),
        ("height", c_size_t),
    )


class _Side(ctypes.Structure):
    """Half of CUDA_MEMCPY3D_v2."""

    _fields_ = (
        ("x", c_size_t),
        ("y", c_size_t),
        ("z", c_size_t),
        ("lod", c_size_t),
        ("type", c_int),
        ("host", c_void_p),
        ("device", c_ulonglong),
        ("array", c_void_p),
        ("reserved", c_void_p),
        ("pitch", c_size_t),
        ("height", c_size_t),
    )

    @property
    def address(self) -> int:
        return (self.host or 0) if self.type == _HOST else self.device


class MemcpyParams(ctypes.Structure):
    """CUDA_MEMCPY3D_v2."""

    _fields_ = (
        ("source", _Side),
        ("target", _Side),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
    )


class DriverError(Exception):
    """A call of the driver that failed."""


class Driver:
    """The driver, with a context that is current."""

    def __init__(self, library: str = "libcuda.so.1") -> None:
        self._library = ctypes.CDLL(library)
        self.launch = self._library.cuGraphLaunch
        self.launch.argtypes = (c_void_p, c_void_p)
        self.context, self.stream, self.side = c_void_p(), c_void_p(), c_void_p()
        self.call("cuCtxGetCurrent", byref(self.context))
        for stream in (self.stream, self.side):
            self.call("cuStreamCreate", byref(stream), c_uint(_NON_BLOCKING))

    def call(self, name: str, *arguments: Any) -> None:
        """Raises DriverError where a call fails."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = c_char_p()
            self._library.cuGetErrorName(c_int(status), byref(text))
            raise DriverError(f"{name}: {(text.value or b'?').decode()} ({status})")

    def version(self) -> int:
        """The version of CUDA that the driver has."""
        found = c_int()
        self.call("cuDriverGetVersion", byref(found))
        return found.value

    def functions(self, ptx: str, names: Sequence[str]) -> list[c_void_p]:
        """Entries of a module, which stays loaded."""
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), c_char_p(ptx.encode()))
        found: list[c_void_p] = []
        for name in names:
            found.append(c_void_p())
            self.call("cuModuleGetFunction", byref(found[-1]), module, c_char_p(name.encode()))
        return found

    def memory(self, length: int) -> int:
        """Device memory, which is never freed."""
        found = c_ulonglong()
        self.call("cuMemAlloc_v2", byref(found), c_size_t(length))
        return found.value

    def pinned(self, length: int) -> int:
        """Pinned host memory, which is never freed."""
        found = c_void_p()
        self.call("cuMemAllocHost_v2", byref(found), c_size_t(length))
        return found.value or 0

    def synchronize(self, stream: c_void_p | None = None) -> None:
        """Waits for a stream, by default the driver's own."""
        self.call("cuStreamSynchronize", stream or self.stream)

    def begin_capture(self, stream: c_void_p) -> None:
        """What is queued from now on becomes a graph."""
        self.call("cuStreamBeginCapture_v2", stream, c_int(_RELAXED))

    def end_capture(self, stream: c_void_p) -> c_void_p:
        """The graph that was queued."""
        handle = c_void_p()
        self.call("cuStreamEndCapture", stream, byref(handle))
        return handle

    def queue(self, function: c_void_p) -> None:
        """Queues a kernel of one warp without parameters."""
        shape = map(c_uint, (1, 1, 1, 32, 1, 1, 0))
        self.call("cuLaunchKernel", function, *shape, self.stream, None, None)

    def copy(self, target: int, source: int, length: int, stream: c_void_p) -> None:
        """Queues a copy."""
        self.call("cuMemcpyAsync", c_ulonglong(target), c_ulonglong(source), c_size_t(length), stream)

    def follow(self, later: c_void_p, before: c_void_p) -> None:
        """What is queued on one stream from now on waits for what another has."""
        event = c_void_p()
        self.call("cuEventCreate", byref(event), c_uint(_NO_TIMING))
        self.call("cuEventRecord", event, before)
        self.call("cuStreamWaitEvent", later, event, c_uint(0))

    def described(self, given: KernelParams) -> dict[str, Any]:
        """A kernel's function, and how it is launched."""
        function, name = c_void_p(given.func), c_char_p()
        if not given.func:
            self.call("cuKernelGetFunction", byref(function), c_void_p(given.kern))
        self.call("cuFuncGetName", byref(name), function)
        found: dict[str, Any] = {"name": (name.value or b"").decode(), "function": function.value}
        found |= {"grid": list(given.grid), "block": list(given.block), "shared": given.shared}
        place, size, sizes = c_size_t(), c_size_t(), list[int]()
        while not self._library.cuFuncGetParamInfo(function, c_size_t(len(sizes)), byref(place), byref(size)):
            sizes.append(size.value)
        found |= {"parameters": len(sizes), "parameter_bytes": place.value + size.value if sizes else 0}
        for number, attribute in FUNCTION_ATTRIBUTES.items():
            value = c_int()
            self.call("cuFuncGetAttribute", byref(value), c_int(number), function)
            found[attribute] = value.value
        return found
