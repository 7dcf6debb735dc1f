"""What a stream was given while it was captured, as one CUDA graph: of kernels alone, where that is possible.

The driver launches a graph of kernels in constant time. Each fill and each copy to or from host memory keeps the host
for another microsecond or more, so that small ones become kernels.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from ctypes import c_uint32, c_uint64
from typing import Any

from dmc.errors import DmcError

# In bytes: a large fill or copy takes longer than its launch, and the driver's own are faster then.
_LARGEST_FILL, _LARGEST_COPY = 64 << 10, 4 << 10
_THREADS = 128
# The bytes that a thread may write, the most first.
_WIDTHS = (8, 4, 2, 1)
# As the CUDA runtime numbers kinds of memory.
_PINNED, _DEVICE = 1, 2

_INDEX = (
    ".reg .pred %past; .reg .b32 %block, %threads, %i, %n; .reg .b64 %to, %from, %value;\n"
    "mov.u32 %block, %ctaid.x; mov.u32 %threads, %ntid.x; mov.u32 %i, %tid.x;"
    "mad.lo.u32 %i, %block, %threads, %i; ld.param.u32 %n, [count]; setp.ge.u32 %past, %i, %n; @%past ret;\n"
    "ld.param.u64 %to, [target]; mad.wide.u32 %to, %i, {width}, %to;\n"
)
_FILL = (
    ".visible .entry fill_{width}(.param .u64 target, .param .u64 pattern, .param .u32 count) {{\n"
    + _INDEX
    + "ld.param.u64 %value, [pattern]; st.global.b{bits} [%to], %value; ret;\n}}\n"
)
# The host may look while the graph goes on (`dmc.runtime.sessions.replay.progress`): what is written is released to
# the system.
_COPY = (
    ".visible .entry copy_{width}(.param .u64 target, .param .u64 source, .param .u32 count) {{\n"
    + _INDEX
    + "ld.param.u64 %from, [source]; mad.wide.u32 %from, %i, {width}, %from;\n"
    "ld.volatile.global.b{bits} %value, [%from]; st.volatile.global.b{bits} [%to], %value;\n"
    "fence.acq_rel.sys; ret;\n}}\n"
)
PTX = ".version 7.0\n.target sm_70\n.address_size 64\n" + "".join(
    entry.format(width=width, bits=8 * width) for entry in (_FILL, _COPY) for width in _WIDTHS
)


class CapturedGraph:
    """A graph that can be launched on the stream that it was captured from."""

    def __init__(self, runtime: Any, stream: int, work: Callable[[], None], change: Callable[[int], None]) -> None:
        """Captures what `work` gives to the stream, and to those that fork from it and join it.

        runtime: CuPy's. change: called with the graph before it is made ready. Raises what these raise.
        """
        self._runtime, self._stream, self._ready = runtime, stream, 0
        runtime.streamBeginCapture(stream)
        try:
            work()
        except BaseException:
            # The capture is invalid, too; its error would hide the cause.
            with contextlib.suppress(runtime.CUDARuntimeError):
                runtime.streamEndCapture(stream)
            raise
        graph = runtime.streamEndCapture(stream)
        try:
            change(graph)
            self._ready = runtime.graphInstantiate(graph)
        finally:
            runtime.graphDestroy(graph)
        # The first launch would upload the graph; a step never does.
        runtime.graphUpload(self._ready, stream)

    def launch(self) -> None:
        """Queues it."""
        self._runtime.graphLaunch(self._ready, self._stream)

    def __del__(self) -> None:
        if self._ready:
            self._runtime.graphExecDestroy(self._ready)


class SmallKernels:
    """Puts kernels in the place of small fills and copies. Other nodes stay: they are only slower."""

    def __init__(self, cupy: Any, driver: Any) -> None:
        """Loads the kernels. driver: NVIDIA's bindings."""
        self._driver, self._runtime = driver, cupy.cuda.runtime
        self._module = cupy.cuda.function.Module()
        self._module.load(PTX.encode())
        kinds = driver.CUgraphNodeType
        self._found = {
            kinds.CU_GRAPH_NODE_TYPE_MEMSET: self._fill,
            kinds.CU_GRAPH_NODE_TYPE_MEMCPY: self._copy,
        }

    def replace(self, graph: int) -> None:
        """Changes a graph that was captured; its kernels have the edges of what they replace. Raises DmcError."""
        (count,) = self._asked("cuGraphGetNodes", graph)[1:]
        for node in self._asked("cuGraphGetNodes", graph, count)[0]:
            (kind,) = self._asked("cuGraphNodeGetType", node)
            params = self._found[kind](node) if kind in self._found else None
            if params is not None:
                self._exchange(graph, node, params)

    def _fill(self, node: Any) -> Any:
        """The kernel for a memset; None if it stays."""
        (given,) = self._asked("cuGraphMemsetNodeGetParams", node)
        size = given.elementSize
        length, target = size * given.width, int(given.dst)
        if given.height != 1 or size not in (1, 2, 4) or not 0 < length <= _LARGEST_FILL:
            return None
        element = (given.value & (1 << 8 * size) - 1).to_bytes(size, "little")
        pattern = int.from_bytes(element * (8 // size), "little")
        return self._kernel("fill", target, pattern, length, math.gcd(target, length))

    def _copy(self, node: Any) -> Any:
        """The kernel for a copy between the device and pinned memory; None if it stays."""
        (given,) = self._asked("cuGraphMemcpyNodeGetParams", node)
        length, is_line = given.WidthInBytes, (given.Height, given.Depth) == (1, 1)
        target, source = (self._address(given, side) for side in ("dst", "src"))
        if not is_line or not 0 < length <= _LARGEST_COPY or target is None or source is None:
            return None
        if {self._memory(target), self._memory(source)} != {_PINNED, _DEVICE}:
            return None
        return self._kernel("copy", target, source, length, math.gcd(target, source, length))

    def _address(self, copy: Any, side: str) -> int | None:
        """Where a copy begins to write ("dst") or to read ("src"); None where that is not an address."""
        kinds = self._driver.CUmemorytype
        kind = getattr(copy, f"{side}MemoryType")
        if any(getattr(copy, f"{side}{name}") for name in ("XInBytes", "Y", "Z")):
            return None
        if kind == kinds.CU_MEMORYTYPE_HOST:
            return int(getattr(copy, f"{side}Host"))
        is_known = kind in (kinds.CU_MEMORYTYPE_DEVICE, kinds.CU_MEMORYTYPE_UNIFIED)
        return int(getattr(copy, f"{side}Device")) if is_known else None

    def _memory(self, address: int) -> int | None:
        """The kind of memory at an address by which kernels reach it; None where they do not."""
        found = self._runtime.pointerGetAttributes(address)
        return found.type if found.devicePointer == address else None

    def _kernel(self, kind: str, target: int, other: int, length: int, common: int) -> Any:
        """common: the greatest divisor of the length and of all addresses."""
        width = next(each for each in _WIDTHS if common % each == 0)
        count = length // width
        params = self._driver.CUDA_KERNEL_NODE_PARAMS()
        params.func = self._module.get_function(f"{kind}_{width}").ptr
        params.gridDimX, params.gridDimY, params.gridDimZ = -(-count // _THREADS), 1, 1
        params.blockDimX, params.blockDimY, params.blockDimZ = min(count, _THREADS), 1, 1
        params.sharedMemBytes = 0
        params.kernelParams = (target, other, count), (c_uint64, c_uint64, c_uint32)
        return params

    def _exchange(self, graph: int, node: Any, params: Any) -> None:
        (kernel,) = self._asked("cuGraphAddKernelNode", graph, None, 0, params)
        for ends, is_before in (("cuGraphNodeGetDependencies", True), ("cuGraphNodeGetDependentNodes", False)):
            count = self._asked(ends, node)[-1]
            if count:
                others, edges, _ = self._asked(ends, node, count)
                pair = (others, [kernel] * count) if is_before else ([kernel] * count, others)
                self._asked("cuGraphAddDependencies", graph, *pair, edges, count)
        self._asked("cuGraphDestroyNode", node)

    def _asked(self, name: str, *given: Any) -> tuple[Any, ...]:
        """What the driver returns."""
        status, *found = getattr(self._driver, name)(*given)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            fact = f"cannot change a step's graph ({name}: {status})"
            raise DmcError("device 'cuda'", fact, hint="set DMC_CUDA_GRAPH=0 and report the model")
        return tuple(found)
