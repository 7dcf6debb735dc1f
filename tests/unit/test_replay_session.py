"""A planned step on a GPU, on streams that only say what is asked of them."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dmc.distribution import install
from dmc.errors import DmcError
from dmc.program import Collective, Move, Range
from dmc.program.code import DeviceCode
from dmc.program.signature import TensorSpec
from dmc.runtime.gpu.cuda_streams import CudaStreams, open_device
from dmc.runtime.tensors.arrays import zeros
from tests.fake_gpu import Device, Failure, Others, session_on, take_step
from tests.fake_graph import GraphDriver


def test_state_is_on_the_device_before_a_step_begins() -> None:
    device = Device()
    session = session_on(device)
    device.calls.clear()
    session.write_state([np.zeros(4, np.float32)])
    take_step(session)
    # It waits twice: a handler of a signal may have called the step meanwhile.
    assert device.calls == ["synchronize", "synchronize", "memcpyAsync", "synchronize", "launch", "record"]


def test_zeros_are_not_sent_to_the_device() -> None:
    device = Device()
    session = session_on(device)
    device.calls.clear()
    session.write_state([zeros((4,), np.dtype(np.float32))])
    assert {*device.calls} == {"synchronize"}
    np.testing.assert_array_equal(session.read_state(0), np.zeros(4, np.float32))
    session.write_state([np.asfortranarray(np.arange(8, dtype=np.float32).reshape(2, 4))[1]])
    np.testing.assert_array_equal(session.read_state(0), [4, 5, 6, 7])
    device.driver.fails = "cuMemsetD8Async"
    with pytest.raises(DmcError, match="cannot fill 16 bytes"):
        session.write_state([zeros((4,), np.dtype(np.float32))])


def test_inputs_are_sent_while_the_step_before_runs() -> None:
    device = Device()
    # The step reads them where they were sent.
    read = Move(0, Range("staged", 0, 8), Range("device", 0, 8))
    session = session_on(device, None, False, read, inputs="staged")
    device.calls.clear()
    for number in (1, 2, 3):
        session.issue([], [np.full(2, number, np.float32), np.zeros((0, 3), np.float32)])
    sent, run = ["memcpyAsync", "record", "wait_event"], ["memcpyAsync", "record"]
    assert device.calls == [*sent, *run, *sent, *run, "synchronize", *sent, *run], (
        "a call waits for that before the last"
    )
    assert session.read_state(0).tolist() == [3, 3, 1, 1]


def test_a_device_that_fails_is_an_error_of_the_step_and_can_be_closed() -> None:
    device = Device()
    session = session_on(device)
    entry = take_step(session)
    device.fails = True
    for use in (lambda: session.wait(entry), lambda: session.read_state(0)):
        with pytest.raises(DmcError, match="illegal address"):
            use()
    session.close()
    session.close()
    with pytest.raises(DmcError, match="closed"):
        session.write_state([np.zeros(4, np.float32)])


def test_what_was_read_while_another_rank_gave_up_is_not_taken() -> None:
    device = Device()
    others = Others(device)
    session = session_on(device, others)
    # Where nothing is in flight, nothing is waited for before.
    others.failure = DmcError("rank 0", "was terminated")
    with pytest.raises(DmcError, match="rank 0: was terminated"):
        session.read_state(0)
    others.failure = None
    session.close()


def test_a_device_that_fails_while_it_is_timed_is_an_error() -> None:
    device = Device()
    streams = CudaStreams(device, device.driver)
    streams.prepare(1, DeviceCode({}, {}))

    def fail(_: Any) -> None:
        raise Failure("illegal address")

    device.cuda.Event = lambda **_: SimpleNamespace(record=fail)
    with pytest.raises(DmcError, match="illegal address"):
        streams.seconds(lambda: None)


def test_a_captured_graph_is_timed_by_the_device() -> None:
    device = Device()
    streams = CudaStreams(device, device.driver)
    streams.prepare(1, DeviceCode({}, {}))
    launch = streams.captured(lambda: None)
    device.calls.clear()
    assert streams.seconds(launch) == pytest.approx(2e-3)
    assert device.calls == ["record", "launch", "record", "synchronize"]


def test_one_rank_of_two_meets_the_other_before_it_captures() -> None:
    device = Device()
    session = session_on(device, Others(device))
    places = [device.calls.index(each) for each in ("open channels", "share", "begin_capture")]
    assert places == sorted(places), "movements between ranks are captured with the addresses of others"
    device.calls.clear()
    take_step(session)
    assert device.calls == ["begin 1", "launch", "record"]
    session.close()
    assert device.calls[-1] == "leave", "after all that was queued"


@pytest.mark.parametrize(("is_captured", "unfinished"), [(True, (1, 0)), (False, None)])
def test_others_see_what_the_device_has_not_ended(is_captured: bool, unfinished: Any) -> None:
    """Launching a graph runs nothing here; commands run as they are issued."""
    where = Range("device", 0, 16)
    reduce = Collective(0, "all_reduce", "dp", (0, 1), 0, "f32", 4, where, where, "sum", "f32")
    others = Others(device := Device())
    session = session_on(device, others, is_captured, reduce)
    assert others.unfinished() is None
    take_step(session)
    assert set(others.asked) == {0}
    found = others.unfinished()
    assert (found and found[:2]) == unfinished


def test_a_rank_that_waits_for_one_that_is_gone_raises() -> None:
    device = Device()
    others = Others(device)
    session = session_on(device, others)
    entry = take_step(session)
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
    session = session_on(device, Others(device))
    device.calls.clear()
    part = TensorSpec("weight", "f32", (4,))
    np.testing.assert_array_equal(session.gathered(0, part, (0, 1)), [[0.0] * 4, [1.0] * 4])
    # Read when all 16 bytes of either rank have arrived.
    given = [(f"broadcast of {rank}", 16, "i8", 7) for rank in (0, 1)]
    assert device.calls == ["record", "waits", *given, "record", "waits", "memcpy"]
    # Of a tensor that this rank does not hold, or not first, it takes what another gives.
    np.testing.assert_array_equal(session.gathered(0, part, (0,)), [[0.0] * 4])


def test_commands_are_issued_one_by_one_on_request() -> None:
    device = Device()
    session = session_on(device, is_captured=False)
    assert "begin_capture" not in device.calls
    take_step(session)
    assert "launch" not in device.calls


@pytest.mark.parametrize("missing", ["cupy", "cuda.bindings.driver"])
def test_what_a_gpu_needs_is_one_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(DmcError, match=r"requires the package '.+', which is not installed") as caught:
        open_device()
    assert caught.value.hint == install("cuda")
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

    def _event(self, disable_timing: bool = False) -> Any:
        event = SimpleNamespace(at=0.0, done=True, ptr=3, synchronize=self._synchronize)

        def record(*_: Any) -> None:
            self.events += 1
            event.at = float(self.events)

        event.record = record
        return event


def test_every_command_of_a_step_is_timed() -> None:
    move = Move(0, Range("pinned_host", 0, 8), Range("device", 64, 8))
    session = session_on(Clock(), None, False, move, move)
    take_step(session)
    with pytest.raises(DmcError, match=r"was run 1 times, and needs 2 batches to be timed"):
        session.timed()
    take_step(session)
    step, commands = session.timed()
    # A tick passes between two events; a step takes none, and neither do 200 copies.
    assert step == pytest.approx(1e6 / 10)
    own = 1e6 - 1e6 / 200
    assert [(each.command, each.start) for each in commands] == [(0, 1e6), (1, 3e6)]
    assert [each.end - each.start for each in commands] == pytest.approx([1e6 - own] * 2)
    assert session.device_name == "a GPU"


def test_an_event_of_a_capture_becomes_a_node_of_the_graph() -> None:
    asked: list[Any] = []
    driver: Any = GraphDriver()
    driver.CUevent, driver.CUstream = int, int
    driver.CUevent_record_flags = SimpleNamespace(CU_EVENT_RECORD_EXTERNAL=1)
    driver.cuEventRecordWithFlags = lambda *given: (asked.append(given), (len(asked) - 1,))[1]
    device = Clock()
    streams = CudaStreams(device, driver)
    streams.prepare(1, DeviceCode({}, {}))
    streams.captured(lambda: streams.stamp(0))
    assert asked == [(3, 7, 1)]
    with pytest.raises(DmcError, match="cannot time a step"):
        streams.captured(lambda: streams.stamp(0))
