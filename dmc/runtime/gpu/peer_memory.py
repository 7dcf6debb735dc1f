"""Memory of other processes' GPUs on one host, through CUDA's IPC: copies by copy engines, and flags between streams.

All of it can be captured in a graph. Flags are words of 32 bits in host memory that a stream writes and waits for by
itself (`cuStreamBatchMemOp`), so neither a multiprocessor nor a thread takes part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dmc.errors import DmcError


class PeerMemory:
    """What `dmc.runtime.world` needs from the current CUDA device. Streams and addresses are integers."""

    def __init__(self, cupy: Any, driver: Any) -> None:
        self._cuda, self._driver = cupy.cuda, driver
        self._runtime = cupy.cuda.runtime
        self._sides: dict[tuple[int, int], _Side] = {}

    def register(self, pointer: int, length: int) -> int:
        """The address by which streams reach host memory. Raises DmcError where they cannot."""
        (status,) = self._driver.cuMemHostRegister(pointer, length, self._driver.CU_MEMHOSTREGISTER_DEVICEMAP)
        if status == self._driver.CUresult.CUDA_SUCCESS:
            status, address = self._driver.cuMemHostGetDevicePointer(pointer, 0)
            if status == self._driver.CUresult.CUDA_SUCCESS:
                return int(address)
            self.unregister(pointer)
        raise DmcError("device 'cuda'", f"cannot reach memory that processes share ({status})")

    def unregister(self, pointer: int) -> None:
        """Ends what `register` began; nothing may be using it."""
        self._driver.cuMemHostUnregister(pointer)

    def share(self, pointer: int) -> bytes:
        """What other processes open an allocation by. Raises DmcError where it cannot be shared."""
        try:
            return self._runtime.ipcGetMemHandle(pointer)
        except self._runtime.CUDARuntimeError as error:
            raise DmcError("device 'cuda'", f"cannot share memory with other processes ({error})") from error

    def open(self, handle: bytes) -> int:
        """The address of another process's allocation. Raises DmcError where this device cannot reach it."""
        try:
            return self._runtime.ipcOpenMemHandle(handle)
        except self._runtime.CUDARuntimeError as error:
            raise DmcError("device 'cuda'", f"cannot open another GPU's memory ({error})") from error

    def close(self, pointer: int) -> None:
        """Closes an allocation that was opened; nothing may be using it."""
        self._runtime.ipcCloseMemHandle(pointer)

    def copy(self, target: int, source: int, length: int, stream: int) -> None:
        """Copies bytes from this device or another one."""
        self._runtime.memcpyAsync(target, source, length, self._runtime.memcpyDefault, stream)

    def fork(self, stream: int, number: int) -> int:
        """One of the streams beside another one, which continues from where that is now."""
        side = self._sides.setdefault((stream, number), _Side(self._cuda))
        self._runtime.eventRecord(side.forked.ptr, stream)
        self._runtime.streamWaitEvent(side.stream.ptr, side.forked.ptr)
        return side.stream.ptr

    def join(self, stream: int, number: int) -> None:
        """Later work on a stream begins after what that stream beside it has now."""
        side = self._sides[stream, number]
        self._runtime.eventRecord(side.joined.ptr, side.stream.ptr)
        self._runtime.streamWaitEvent(stream, side.joined.ptr)

    def record(self, stream: int) -> Any:
        """An event that is signalled when all work queued on a stream so far is done."""
        event = self._cuda.Event(disable_timing=True)
        self._runtime.eventRecord(event.ptr, stream)
        return event

    def wait(self, stream: int, event: Any) -> None:
        """Later work on a stream begins after the event."""
        self._runtime.streamWaitEvent(stream, event.ptr)

    def meet(self, raised: Sequence[int], awaited: Sequence[int], stream: int) -> None:
        """Raises flags of others, after all earlier work on the stream; waits until own ones are, and lowers them."""
        driver = self._driver
        kinds, flags = driver.CUstreamBatchMemOpType, driver.CUstreamWaitValue_flags
        operations = [self._written(each, 1) for each in raised]
        for each in awaited:
            wait = driver.CUstreamBatchMemOpParams()
            wait.waitValue.operation = kinds.CU_STREAM_MEM_OP_WAIT_VALUE_32
            wait.waitValue.address = each
            wait.waitValue.value = 1
            wait.waitValue.flags = int(flags.CU_STREAM_WAIT_VALUE_EQ)
            operations.append(wait)
        operations += [self._written(each, 0) for each in awaited]
        (status,) = driver.cuStreamBatchMemOp(stream, len(operations), operations, 0)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise DmcError("device 'cuda'", f"cannot wait for another GPU ({status})", hint="set DMC_DIRECT_COPIES=0")

    def _written(self, flag: int, value: int) -> Any:
        write = self._driver.CUstreamBatchMemOpParams()
        write.writeValue.operation = self._driver.CUstreamBatchMemOpType.CU_STREAM_MEM_OP_WRITE_VALUE_32
        write.writeValue.address = flag
        write.writeValue.value = value
        write.writeValue.flags = 0
        return write


class _Side:
    """A stream beside another one, and the events between them, which a capture uses again and again."""

    def __init__(self, cuda: Any) -> None:
        self.stream = cuda.Stream(non_blocking=True)
        self.forked, self.joined = cuda.Event(disable_timing=True), cuda.Event(disable_timing=True)
