"""A planned step on a GPU, on streams that only say what is asked of them."""

from __future__ import annotations

import ctypes
import dataclasses
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dmc.errors import DmcError
from dmc.program import Collective, Command, Job, Lane, Move, Program, Range, Slot, Space
from dmc.program.code import DeviceCode
from dmc.runtime.cuda_streams import CudaStreams, open_device
from dmc.runtime.replay_session import ReplaySession
from dmc.runtime.signature import Signature, StateSpec, TensorSpec
from dmc.runtime.world.launch import World


class Failure(Exception):
    """What CuPy raises."""


class Device:
    """CuPy, as far as a session needs it. calls: what was asked, by name. fails: whether waiting does."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.fails = False
        asked = {"memcpyHostToDevice": 1, "memcpyDeviceToHost": 2, "CUDARuntimeError": Failure}
        asked |= {name: self._copies(name) for name in ("memcpy", "memcpyAsync")} | {"memcpyDefault": 4}
        stream = SimpleNamespace(ptr=7, synchronize=self._synchronize, wait_event=self._asked("wait_event"))
        stream.begin_capture = self._asked("begin_capture")
        stream.end_capture = lambda: SimpleNamespace(upload=self._asked("upload"), launch=self._asked("launch"))
        module = SimpleNamespace(load=self._asked("load"))
        event = SimpleNamespace(record=self._asked("record"), synchronize=self._synchronize, done=True)
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(**asked),
            Stream=lambda non_blocking: stream,
            Event=lambda disable_timing=False: event,
            get_elapsed_time=lambda begin, end: 2.0,
            function=SimpleNamespace(Module=lambda: module),
            Memory=Memory,
            alloc_pinned_memory=Memory,
        )

    def _asked(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)

    def _copies(self, name: str) -> Any:
        def copy(target: int, source: int, length: int, *_: int) -> None:
            self.calls.append(name)
            ctypes.memmove(target, source, length)

        return copy

    def _synchronize(self) -> None:
        self.calls.append("synchronize")
        if self.fails:
            raise Failure("illegal address")


class Memory(bytearray):
    """Memory of the device, or pinned."""

    @property
    def ptr(self) -> int:
        return np.frombuffer(self, np.uint8).ctypes.data


class Others:
    """The other ranks of a rank 1. failure: of one of them. All they hold is zeros. apart: how far behind the target of
    the last gather its source was."""

    def __init__(self, device: Device) -> None:
        self.world, self._device = World(1, 2, 1, 2, "torchrun"), device
        self.failure: DmcError | None = None
        self.everyone = SimpleNamespace(all_gather=self._all_gather)

    def _all_gather(self, source: int, target: int, *given: Any) -> None:
        self._device.calls.append(("all_gather", *given))
        self.apart = source - target
        ctypes.memmove(target + given[0], source, given[0])

    def open(self, job: Job) -> Any:
        self._device.calls.append("open channels")
        return SimpleNamespace(move=lambda *_: self._device.calls.append("move"))

    def follow(self, unfinished: Any) -> None:
        self.unfinished = unfinished

    def begin(self, step: int) -> None:
        self._device.calls.append(f"begin {step}")

    @contextmanager
    def waiting(self) -> Generator[None]:
        self._device.calls.append("waits")
        yield

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure


def _session(
    device: Device, peers: Any = None, is_captured: bool = True, *commands: Command, space: Space = "device"
) -> ReplaySession:
    """space: where the state is."""
    slots = (
        Slot("w", "parameter", "f32", (4,), Range(space, 0, 16)),
        Slot("x", "batch", "f32", (2,), Range("pinned_host", 0, 8)),
        Slot("loss", "output", "f32", (), Range("pinned_host", 256, 4)),
    )
    arenas: dict[Space, int] = {"device": 256, "pinned_host": 512}
    arenas.setdefault(space, 256)
    program = Program(0, arenas, (Lane("compute", "compute"),), slots, commands)
    signature = Signature(
        state=(StateSpec("w@0", "f32", (4,)),),
        controls=(),
        batch=(TensorSpec("x@0", "f32", (2,)), TensorSpec("none@0", "f32", (0, 3))),
        outputs=(TensorSpec("loss@0", "f32", ()),),
        args={"tuple": []},
        kwargs={"dict": {}},
        aux=None,
        learning_rates=(),
    )
    rank = 0 if peers is None else 1
    programs = (program, replace(program, rank=1)) if rank else (program,)
    job, code = Job({"rank": len(programs)}, (), {}, programs), DeviceCode({}, {})
    kinds = ("state", "batch", "outputs")
    specs = {kind: tuple(_of_rank(spec, rank) for spec in getattr(signature, kind)) for kind in kinds}
    own = dataclasses.replace(signature, **specs)
    return ReplaySession(CudaStreams(device, None), own, job, code, [np.ones(4, np.float32)], peers, is_captured)


def _of_rank(spec: Any, rank: int) -> Any:
    return dataclasses.replace(spec, name=spec.name.replace("@0", f"@{rank}"))


def _step(session: ReplaySession) -> int:
    return session.issue([], [np.ones(2, np.float32), np.ones((0, 3), np.float32)])[0]


def test_state_is_on_the_device_before_a_step_begins() -> None:
    device = Device()
    session = _session(device)
    device.calls.clear()
    session.write_state([np.zeros(4, np.float32)])
    _step(session)
    assert device.calls == ["synchronize", "memcpyAsync", "synchronize", "launch", "record"]


def test_a_device_that_fails_is_an_error_of_the_step_and_can_be_closed() -> None:
    device = Device()
    session = _session(device)
    entry = _step(session)
    device.fails = True
    for use in (lambda: session.wait(entry), lambda: session.read_state(0)):
        with pytest.raises(DmcError, match="illegal address"):
            use()
    session.close()
    session.close()
    with pytest.raises(DmcError, match="closed"):
        session.write_state([np.zeros(4, np.float32)])


def test_a_captured_graph_is_timed_by_the_device() -> None:
    device = Device()
    streams = CudaStreams(device, None)
    streams.prepare(1, DeviceCode({}, {}))
    launch = streams.captured(lambda: None)
    device.calls.clear()
    assert streams.seconds(launch) == pytest.approx(2e-3)
    assert device.calls == ["record", "launch", "record", "synchronize"]


def test_one_rank_of_two_meets_the_other_before_it_captures() -> None:
    device = Device()
    session = _session(device, Others(device))
    assert device.calls.index("open channels") < device.calls.index("begin_capture")
    device.calls.clear()
    _step(session)
    assert device.calls == ["begin 1", "launch", "record"]


@pytest.mark.parametrize(("is_captured", "unfinished"), [(True, (1, 0)), (False, None)])
def test_others_see_what_the_device_has_not_ended(is_captured: bool, unfinished: Any) -> None:
    """Launching a graph runs nothing here; commands run as they are issued."""
    where = Range("device", 0, 16)
    reduce = Collective(0, "all_reduce", "dp", (0, 1), 0, "f32", 4, where, where, "sum", "f32")
    others = Others(device := Device())
    session = _session(device, others, is_captured, reduce)
    assert others.unfinished() is None
    _step(session)
    found = others.unfinished()
    assert (found and found[:2]) == unfinished


def test_a_rank_that_waits_for_one_that_is_gone_raises() -> None:
    device = Device()
    others = Others(device)
    session = _session(device, others)
    entry = _step(session)
    device.cuda.Event = lambda disable_timing: SimpleNamespace(record=lambda _: None, done=False)
    session._flights()[0].done = SimpleNamespace(done=False)  # pyright: ignore[reportPrivateUsage]
    others.failure = DmcError("rank 1", "rank 0 has given no sign of life")
    device.calls.clear()
    with pytest.raises(DmcError, match="no sign of life"):
        session.wait(entry)
    assert device.calls == ["waits"]
    session.close()


def test_state_is_gathered_from_all_ranks() -> None:
    device = Device()
    session = _session(device, Others(device))
    device.calls.clear()
    np.testing.assert_array_equal(session.gathered(0), [[0.0] * 4, [1.0] * 4])
    # Read when all 16 bytes of either rank have arrived.
    assert device.calls == ["record", "waits", ("all_gather", 16, "i8", 7), "record", "waits", "memcpy"]


def test_state_in_host_memory_is_there_once_for_all_calls() -> None:
    device, state, there = Device(), Range("host", 0, 16), Range("device", 64, 16)
    turned = Range("device", 64, 8), Range("device", 72, 8), Range("device", 80, 8)
    swap = (Move(0, turned[0], turned[2]), Move(0, turned[1], turned[0]), Move(0, turned[2], turned[1]))
    session = _session(device, None, False, Move(0, state, there), *swap, Move(0, there, state), space="host")
    device.calls.clear()
    session.write_state([np.array([1, 2, 3, 4], np.float32)])
    # The device copies nothing: what is in host memory is the host's.
    assert device.calls == ["synchronize"]
    held = session.read_state(0)
    for expected in ([3, 4, 1, 2], [1, 2, 3, 4], [3, 4, 1, 2]):
        _step(session)
        device.calls.clear()
        np.testing.assert_array_equal(session.read_state(0), expected)
        assert device.calls == ["synchronize"]
    np.testing.assert_array_equal(held, [1, 2, 3, 4])
    session.close()


def test_state_in_host_memory_is_gathered_from_the_device() -> None:
    others = Others(device := Device())
    session = _session(device, others, space="host")
    device.calls.clear()
    np.testing.assert_array_equal(session.gathered(0), [[0.0] * 4, [1.0] * 4])
    assert others.apart == 16
    moved = ["memcpyAsync", "synchronize", ("all_gather", 16, "i8", 7)]
    assert device.calls == ["record", "waits", *moved, "record", "waits", "memcpy"]


def test_host_memory_that_cannot_be_pinned_is_an_error() -> None:
    device = Device()

    def fails(length: int) -> None:
        raise Failure("out of memory")

    device.cuda.alloc_pinned_memory = fails
    with pytest.raises(DmcError, match=r"cannot pin 256 bytes of host memory \(out of memory\)"):
        _session(device, space="host")


def test_commands_are_issued_one_by_one_on_request() -> None:
    device = Device()
    session = _session(device, is_captured=False)
    assert "begin_capture" not in device.calls
    _step(session)
    assert "launch" not in device.calls


@pytest.mark.parametrize("missing", ["cupy", "cuda.bindings.driver"])
def test_what_a_gpu_needs_is_one_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(DmcError, match=r"requires the package '.+', which is not installed") as caught:
        open_device()
    assert caught.value.hint == "pip install 'dmc[cuda]'"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["cuda"]
    assert {"cuda-bindings", "cupy-cuda13x"} <= {line.partition(">")[0] for line in extra}


class Clock(Device):
    """A device whose events take the times of `ticks`, in milliseconds, in the order in which they are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.events = 0
        self.cuda.Event = self._event
        self.cuda.get_elapsed_time = lambda begin, end: end.at - begin.at
        self.cuda.runtime.getDeviceProperties = lambda number: {"name": b"a GPU"}
        self.cuda.Device = lambda: SimpleNamespace(id=0)

    def _event(self, disable_timing: bool = False) -> Any:
        event = SimpleNamespace(at=0.0, done=True, ptr=3, synchronize=self._synchronize)

        def record(*_: Any) -> None:
            self.events += 1
            event.at = float(self.events)

        event.record = record
        return event


def test_every_command_of_a_step_is_timed() -> None:
    move = Move(0, Range("pinned_host", 0, 8), Range("device", 64, 8))
    session = _session(Clock(), None, False, move, move)
    _step(session)
    with pytest.raises(DmcError, match=r"was run 1 times, and needs 2 batches to be timed"):
        session.timed()
    _step(session)
    step, commands = session.timed()
    # A tick passes between two events; a step takes none, and neither do 200 copies.
    assert step == pytest.approx(1e6 / 10)
    own = 1e6 - 1e6 / 200
    assert [(each.command, each.start) for each in commands] == [(0, 1e6), (1, 3e6)]
    assert [each.end - each.start for each in commands] == pytest.approx([1e6 - own] * 2)
    assert session.device_name == "a GPU"


def test_an_event_of_a_capture_becomes_a_node_of_the_graph() -> None:
    asked: list[Any] = []
    driver = SimpleNamespace(
        CUevent=int,
        CUstream=int,
        CUresult=SimpleNamespace(CUDA_SUCCESS=0),
        CUevent_record_flags=SimpleNamespace(CU_EVENT_RECORD_EXTERNAL=1),
        cuEventRecordWithFlags=lambda *given: (asked.append(given), (len(asked) - 1,))[1],
    )
    device = Clock()
    streams = CudaStreams(device, driver)
    streams.prepare(1, DeviceCode({}, {}))
    streams.captured(lambda: streams.stamp(0))
    assert asked == [(3, 7, 1)]
    with pytest.raises(DmcError, match="cannot time a step"):
        streams.captured(lambda: streams.stamp(0))
