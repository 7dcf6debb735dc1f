"""Streams, memory and graphs of one CUDA device, through CuPy, which only machines with a GPU need."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from dmc.distribution import install
from dmc.errors import DmcError
from dmc.program import Collective
from dmc.program.code import Attention, Binding, CodeModule, DeviceCode, Dispatch, Product
from dmc.runtime.gpu.captured_graph import CapturedGraph, SmallKernels
from dmc.runtime.gpu.failures import Reported
from dmc.runtime.gpu.libraries import Libraries
from dmc.runtime.gpu.peer_memory import PeerMemory
from dmc.runtime.gpu.tensor_maps import TensorMaps
from dmc.runtime.process.forked import open_here
from dmc.runtime.world.channels import Channels

# Above this size a kernel must opt in to shared memory.
_FREE_SHARED = 48 << 10


def open_device(ordinal: int = 0) -> CudaStreams:
    """The CUDA device of this number. Raises DmcError if CuPy or the device is missing."""
    try:
        cupy: Any = importlib.import_module("cupy")
        driver: Any = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        fact = f"requires the package {error.name!r}, which is not installed"
        raise DmcError("device 'cuda'", fact, hint=install("cuda")) from error
    open_here("cupy", f"cuda:{ordinal}")
    try:
        cupy.cuda.Device(ordinal).use()
        return CudaStreams(cupy, driver)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        hint = 'run on a machine that has one; where a launcher shows each rank only its own GPU, pass device="cuda:0"'
        raise DmcError(f"device 'cuda:{ordinal}'", f"cannot be opened ({error})", hint) from error


class CudaStreams:
    """A stream for each lane, and the operations that `dmc.runtime.sessions.replay.issue` issues on them."""

    def __init__(self, cupy: Any, driver: Any) -> None:
        self._libraries = cupy, driver
        self._driver, self._cuda, self._runtime = driver, cupy.cuda, cupy.cuda.runtime
        self._device, self._thread = cupy.cuda.Device(), threading.local()
        self._reported = Reported(cupy.cuda.runtime.CUDARuntimeError)
        self._streams: list[Any] = []
        self._entries: dict[tuple[str, str], Any] = {}
        self._computing = Libraries()
        self._maps: TensorMaps | None = None
        self._channels: Channels | None = None
        # The events of a capture must outlive it.
        self._capturing: list[Any] | None = None

    def beside(self) -> CudaStreams:
        """For another program: other code and lanes on the same device, with the same lane 0, which orders both."""
        other = CudaStreams(*self._libraries)
        other._streams = self._streams[:1]
        return other

    def prepare(self, lanes: int, code: DeviceCode, channels: Channels | None = None) -> None:
        """Creates the lanes' streams and loads the code; kernels with large shared memory opt in to it.

        channels: the communicators, for a job of several ranks.
        """
        self._channels = channels
        self._streams += [self._cuda.Stream(non_blocking=True) for _ in range(lanes - len(self._streams))]
        modules = {name: self._loaded(module) for name, module in code.modules.items()}
        dispatches = (step for steps in code.kernels.values() for step in steps if isinstance(step, Dispatch))
        for dispatch in dispatches:
            key = (dispatch.module, dispatch.entry)
            entry = self._entries.get(key) or modules[dispatch.module].get_function(dispatch.entry)
            self._entries[key] = entry
            if dispatch.shared > _FREE_SHARED:
                self._allow_shared(entry, dispatch)
        self._computing.prepare(code)

    @cached_property
    def _side(self) -> tuple[Any, Any]:
        """The stream that inputs are copied on, and the event of its last copy."""
        return self._cuda.Stream(non_blocking=True), self._cuda.Event(disable_timing=True)

    @cached_property
    def _small(self) -> SmallKernels:
        """The kernels that take the place of small fills and copies in a graph."""
        return SmallKernels(*self._libraries)

    def _allow_shared(self, entry: Any, dispatch: Dispatch) -> None:
        driver = self._driver
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        (status,) = driver.cuFuncSetAttribute(driver.CUfunction(entry.ptr), attribute, dispatch.shared)
        if status != driver.CUresult.CUDA_SUCCESS:
            fact = f"cannot give {dispatch.entry} {dispatch.shared} bytes of shared memory ({status})"
            raise DmcError("device 'cuda'", fact, hint="the code is for compute capability 9.0 (H100, H200)")

    def _loaded(self, module: CodeModule) -> Any:
        loaded = self._cuda.function.Module()
        try:
            loaded.load(module.image)
        except self._cuda.driver.CUDADriverError as error:
            fact = f"cannot load the step's code ({error})"
            raise DmcError("device 'cuda'", fact, hint="the code is for compute capability 9.0 (H100, H200)") from error
        return loaded

    def allocate(self, length: int) -> Any:
        """Device memory, at the address `.ptr` while the object is alive. Raises DmcError if memory is exhausted."""
        try:
            return self._cuda.Memory(length)
        except self._runtime.CUDARuntimeError as error:
            hint = "free device memory or make the model smaller"
            raise DmcError("device 'cuda'", f"cannot allocate {length} bytes ({error})", hint) from error

    def allocate_pinned(self, length: int) -> Any:
        """Pinned host memory: a buffer of bytes at address `.ptr`. Raises DmcError if the host has no more of it."""
        try:
            return self._cuda.alloc_pinned_memory(length)
        except self._runtime.CUDARuntimeError as error:
            hint = "free host memory, raise its limit, or offload less"
            raise DmcError("device 'cuda'", f"cannot pin {length} bytes of host memory ({error})", hint) from error

    def peer_memory(self) -> PeerMemory:
        """What shares this device's memory with the other ranks of the host."""
        return PeerMemory(*self._libraries)

    def use(self) -> None:
        """Makes the device the calling thread's own, as it is that of the thread that opened it."""
        if not hasattr(self._thread, "is_used"):
            self._device.use()
            self._thread.is_used = True

    @property
    def main(self) -> Any:
        """The stream of lane 0."""
        return self._streams[0]

    def upload(self, target: int, data: bytes | np.ndarray) -> None:
        """Copies bytes to the device and returns when the copy is complete."""
        source = np.frombuffer(data, np.uint8)
        # A plain memcpy may return before the copy is complete, and no lane waits for its stream.
        with self._reported:
            to_device = self._runtime.memcpyHostToDevice
            self._runtime.memcpyAsync(target, source.ctypes.data, len(source), to_device, self.main.ptr)
            self.main.synchronize()

    def download(self, source: int, length: int) -> np.ndarray:
        """A copy of `length` bytes of device memory."""
        target = np.empty(length, np.uint8)
        with self._reported:
            self._runtime.memcpy(target.ctypes.data, source, length, self._runtime.memcpyDeviceToHost)
        return target

    def drain(self) -> None:
        """Blocks until all work queued on lane 0 is done; raises DmcError if the device fails."""
        with self._reported:
            self.main.synchronize()

    def wait_for(self, event: Any) -> None:
        """Blocks until an event is signalled; raises DmcError if the device fails."""
        with self._reported:
            event.synchronize()

    def is_past(self, event: Any) -> bool:
        """Whether an event is signalled; raises DmcError if the device fails."""
        with self._reported:
            return event.done

    def launch(self, lane: int, dispatch: Dispatch, pointers: list[int]) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        # CuPy passes numpy scalars by value: a pointer is a 64-bit number.
        nulls = [np.uint64(0)] * dispatch.nulls
        buffers = chain.from_iterable(map(self._buffer, dispatch.bindings, pointers))
        arguments = (*buffers, *map(np.int32, dispatch.scalars), *nulls)
        entry = self._entries[dispatch.module, dispatch.entry]
        entry(dispatch.grid, dispatch.block, arguments, shared_mem=dispatch.shared, stream=self._streams[lane])

    def _buffer(self, binding: Binding, pointer: int) -> tuple[Any, ...]:
        """What an entry takes for a buffer."""
        if binding.map is None:
            return (np.uint64(pointer),)
        if self._maps is None:
            self._maps = TensorMaps(self._driver)
        return self._maps.arguments(binding.map, pointer)

    def copy(self, lane: int, target: int, source: int, length: int) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        self._runtime.memcpyAsync(target, source, length, self._runtime.memcpyDefault, self._streams[lane].ptr)

    def send(self, target: int, source: int, length: int) -> None:
        """Copies pinned memory to the device beside what is queued; lane 0 waits for it before what follows."""
        side, sent = self._side
        with self._reported:
            self._runtime.memcpyAsync(target, source, length, self._runtime.memcpyHostToDevice, side.ptr)
            sent.record(side)
            self.main.wait_event(sent)

    def fill(self, lane: int, target: int, length: int, pattern: bytes) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        width = len(pattern)
        fill = {1: self._driver.cuMemsetD8Async, 2: self._driver.cuMemsetD16Async, 4: self._driver.cuMemsetD32Async}
        (status,) = fill[width](target, int.from_bytes(pattern, "little"), length // width, self._streams[lane].ptr)
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise DmcError("device 'cuda'", f"cannot fill {length} bytes ({status})", hint="please report the model")

    def product(self, lane: int, product: Product, pointers: list[int]) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        self._computing.product(product, pointers, self._streams[lane].ptr)

    def attention(self, lane: int, attention: Attention, pointers: list[int]) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        self._computing.attention(attention, pointers, self._streams[lane].ptr)

    def collective(self, lane: int, command: Collective, source: int, target: int) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        assert self._channels is not None, "a rank that runs alone moves nothing to others"
        self._channels.move(command, source, target, self._streams[lane].ptr)

    def before(self, lane: int, place: int) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        if self._channels is not None:
            self._channels.before(place, self._streams[lane].ptr)

    def record(self, lane: int, event: Any = None) -> Any:
        """See `dmc.runtime.sessions.replay.issue.Streams`. event: one to be used again, which nothing waits for any
        more."""
        if event is None:
            event = self._cuda.Event(disable_timing=True)
        event.record(self._streams[lane])
        if self._capturing is not None:
            self._capturing.append(event)
        return event

    def wait(self, lane: int, event: Any) -> None:
        """See `dmc.runtime.sessions.replay.issue.Streams`."""
        self._streams[lane].wait_event(event)

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        """Captures `work`, which forks from lane 0 and joins it, as one graph; the result launches the graph."""
        self._capturing = []
        try:
            graph = CapturedGraph(self._runtime, self.main.ptr, work, self._small.replace)
        finally:
            self._capturing = None

        def launch() -> None:
            with self._reported:
                graph.launch()

        return launch

    def seconds(self, launch: Callable[[], None]) -> float:
        """How long a captured graph, launched by `launch`, takes by the device's own clock."""
        begin = self.stamp(0)
        launch()
        end = self.stamp(0)
        self.drain()
        return 1e-9 * self.elapsed_ns(begin, end)

    def stamp(self, lane: int) -> Any:
        """Records an event that takes the time, also as a node of a graph that is being captured."""
        event, stream = self._cuda.Event(), self._streams[lane]
        if self._capturing is None:
            with self._reported:
                event.record(stream)
            return event
        self._capturing.append(event)
        driver = self._driver
        flag = driver.CUevent_record_flags.CU_EVENT_RECORD_EXTERNAL
        (status,) = driver.cuEventRecordWithFlags(driver.CUevent(event.ptr), driver.CUstream(stream.ptr), int(flag))
        if status != driver.CUresult.CUDA_SUCCESS:
            raise DmcError("device 'cuda'", f"cannot time a step ({status})", hint="run without --profile")
        return event

    def elapsed_ns(self, begin: Any, end: Any) -> float:
        """The time between two events of `stamp`, both past."""
        with self._reported:
            return 1e6 * self._cuda.get_elapsed_time(begin, end)

    def algorithms(self, product: Product, count: int) -> list[tuple[int, ...]]:
        """At most so many algorithms of cuBLASLt for a product, the most promising first."""
        return self._computing.algorithms(product, count)

    @property
    def name(self) -> str:
        """The device's name, as its driver reports it."""
        return self._runtime.getDeviceProperties(self._cuda.Device().id)["name"].decode()

    def versions(self) -> dict[str, str]:
        """The device's name, and the versions of what runs on it."""
        driver = self._runtime.driverGetVersion()
        return {"device": self.name, "driver": str(driver), **self._computing.versions()}
