"""What is asked of CUDA for memory that processes share, here a library that only notes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dmc.errors import DmcError
from dmc.runtime.gpu.peer_memory import PeerMemory


class Failure(Exception):
    """What CuPy raises."""


class Library:
    """CuPy and the driver. calls: what was asked, by name. status: of the driver."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.status, self.fails, self.is_mapped = 0, False, True
        asked = (
            "ipcGetMemHandle",
            "ipcOpenMemHandle",
            "ipcCloseMemHandle",
            "memcpyAsync",
            "eventRecord",
            "streamWaitEvent",
        )
        runtime = {name: self._asked(name) for name in asked} | {"memcpyDefault": 4, "CUDARuntimeError": Failure}
        events = iter(range(100, 200))
        self.cupy = SimpleNamespace(
            cuda=SimpleNamespace(
                runtime=SimpleNamespace(**runtime),
                Stream=lambda non_blocking: SimpleNamespace(ptr=9, synchronize=lambda: None),
                Event=lambda disable_timing: SimpleNamespace(ptr=next(events)),
            )
        )
        self.driver = SimpleNamespace(
            CUresult=SimpleNamespace(CUDA_SUCCESS=0),
            CUstreamBatchMemOpType=SimpleNamespace(
                CU_STREAM_MEM_OP_WAIT_VALUE_32="wait", CU_STREAM_MEM_OP_WRITE_VALUE_32="write"
            ),
            CUstreamWaitValue_flags=SimpleNamespace(CU_STREAM_WAIT_VALUE_EQ=1),
            CUstreamBatchMemOpParams=lambda: SimpleNamespace(waitValue=SimpleNamespace(), writeValue=SimpleNamespace()),
            cuStreamBatchMemOp=self._batch,
            CU_MEMHOSTREGISTER_DEVICEMAP=2,
            cuMemHostRegister=self._register,
            cuMemHostGetDevicePointer=lambda pointer, flags: (self.status if self.is_mapped else 1, 2 * pointer),
            cuMemHostUnregister=self._asked("unregister"),
        )

    def _asked(self, name: str) -> Any:
        def call(*given: Any) -> Any:
            self.calls.append((name, *given))
            if self.fails:
                raise Failure("not supported")
            return {"ipcGetMemHandle": b"handle", "ipcOpenMemHandle": 77}.get(name)

        return call

    def _batch(self, stream: int, count: int, operations: Any, flags: int) -> tuple[int]:
        assert count == len(operations)
        told = [vars(each.waitValue) or vars(each.writeValue) for each in operations]
        self.calls.append((stream, [(each["operation"], each["address"], each["value"]) for each in told]))
        return (self.status,)

    def _register(self, *given: int) -> tuple[int]:
        self.calls.append(("register", *given))
        return (self.status,)


@pytest.fixture
def library() -> Library:
    return Library()


def _memory(library: Library) -> PeerMemory:
    return PeerMemory(library.cupy, library.driver)


def test_host_memory_is_reached_by_an_address_of_the_device(library: Library) -> None:
    memory = _memory(library)
    assert memory.register(4096, 64) == 8192
    memory.unregister(4096)
    assert library.calls == [("register", 4096, 64, 2), ("unregister", 4096)]


def test_host_memory_without_an_address_does_not_stay_registered(library: Library) -> None:
    library.is_mapped = False
    with pytest.raises(DmcError, match="cannot reach memory that processes share"):
        _memory(library).register(4096, 64)
    assert library.calls == [("register", 4096, 64, 2), ("unregister", 4096)]


def test_a_meeting_is_one_operation_in_order(library: Library) -> None:
    """Own work is told first, or ranks would wait for each other; flags are lowered after all were seen."""
    _memory(library).meet([1000, 1004], [2000, 2004], 7)
    wanted = [("write", 1000, 1), ("write", 1004, 1), ("wait", 2000, 1), ("wait", 2004, 1)]
    assert library.calls == [(7, [*wanted, ("write", 2000, 0), ("write", 2004, 0)])]


def test_a_stream_beside_another_begins_and_ends_with_it(library: Library) -> None:
    memory = _memory(library)
    for _ in range(2):
        assert memory.fork(7, 0) == 9
        memory.copy(1, 2, 3, 9)
        memory.join(7, 0)
    turn = [
        ("eventRecord", 100, 7),
        ("streamWaitEvent", 9, 100),
        ("memcpyAsync", 1, 2, 3, 4, 9),
        ("eventRecord", 101, 9),
        ("streamWaitEvent", 7, 101),
    ]
    assert library.calls == [*turn, *turn]


def test_memory_is_shared_opened_and_closed(library: Library) -> None:
    memory = _memory(library)
    assert memory.open(memory.share(64)) == 77
    memory.close(77)
    assert library.calls == [("ipcGetMemHandle", 64), ("ipcOpenMemHandle", b"handle"), ("ipcCloseMemHandle", 77)]


def test_what_cuda_refuses_is_an_error(library: Library) -> None:
    memory = _memory(library)
    library.fails, library.status = True, 801
    with pytest.raises(DmcError, match="cannot share memory with other processes"):
        memory.share(64)
    with pytest.raises(DmcError, match="cannot open another GPU's memory"):
        memory.open(b"handle")
    with pytest.raises(DmcError, match="cannot reach memory that processes share"):
        memory.register(4096, 64)
    with pytest.raises(DmcError, match="cannot wait for another GPU"):
        memory.meet([1], [2], 7)
