"""A rank's communicators, and what the movements of its plan ask of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from dmc.program import Channel, Collective, CollectiveKind, Job, Program, Range
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.communicator import Communicator

STREAM = 7
SOURCE, TARGET = Range("device", 0, 32), Range("device", 64, 32)


class Recorder:
    """A communicator that writes down what is asked of it. fact: what has failed."""

    def __init__(self, group: tuple[int, ...], calls: list[Any], fact: str | None = None) -> None:
        self._group, self._calls, self._fact = group, calls, fact

    @contextmanager
    def group(self) -> Generator[None]:
        self._calls.append("group")
        yield
        self._calls.append("end")

    def failed(self) -> str | None:
        return self._fact

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self._calls.append((name, self._group, *given))


class Maker:
    """Makes recorders."""

    def __init__(self, fact: str | None = None) -> None:
        self.made: list[tuple[int, ...]] = []
        self.calls: list[Any] = []
        self._fact = fact

    def make(self, group: tuple[int, ...]) -> Communicator:
        self.made.append(group)
        recorder: Any = Recorder(group, self.calls, self._fact)
        return recorder


def _job(*channels: Channel, **mesh: int) -> Job:
    programs = tuple(Program(rank, {}, (), (), ()) for rank in range(2))
    return Job.of(mesh, channels, {}, programs)


def test_groups_of_the_rank_in_declared_order() -> None:
    job = _job(Channel("tp", ("tp",)), Channel("dp", ("dp",)), Channel("all", ("dp", "tp")), dp=2, tp=2)
    maker = Maker()
    Channels(job, 2, maker)
    assert maker.made == [(2, 3), (0, 2), (0, 1, 2, 3)]
    maker = Maker()
    Channels(_job(Channel("ring", groups=((0, 1), (1, 2), (2, 0))), pp=3), 2, maker)
    assert maker.made == [(1, 2), (2, 0)]


MEMBERS = (1, 3)


@pytest.mark.parametrize(
    ("kind", "more", "calls"),
    [
        ("all_reduce", {"reduction": "mean"}, [("all_reduce", MEMBERS, 100, 200, 16, "bf16", "mean", STREAM)]),
        ("reduce_scatter", {"reduction": "sum"}, [("reduce_scatter", MEMBERS, 100, 200, 8, "bf16", "sum", STREAM)]),
        ("all_gather", {}, [("all_gather", MEMBERS, 100, 200, 32, "i8", STREAM)]),
        ("all_to_all", {}, [("all_to_all", MEMBERS, 100, 200, 16, "i8", STREAM)]),
        ("broadcast", {"peer": 1}, [("broadcast", MEMBERS, 100, 200, 32, "i8", 1, STREAM)]),
        ("send", {"peer": 0, "target": None}, [("send", MEMBERS, 100, 32, "i8", 0, STREAM)]),
        ("recv", {"peer": 0, "source": None}, [("recv", MEMBERS, 200, 32, "i8", 0, STREAM)]),
        (
            "permute",
            {"pairs": ((0, 1), (1, 0))},
            ["group", ("recv", MEMBERS, 200, 32, "i8", 0, STREAM), ("send", MEMBERS, 100, 32, "i8", 0, STREAM), "end"],
        ),
        ("permute", {"pairs": ((0, 1),)}, ["group", ("recv", MEMBERS, 200, 32, "i8", 0, STREAM), "end"]),
    ],
)
def test_movements(kind: CollectiveKind, more: dict[str, Any], calls: list[Any]) -> None:
    """Of rank 3, member 1 of its group, with 16 elements of two bytes: summed in their type, else moved as bytes."""
    maker = Maker()
    channels = Channels(_job(Channel("dp", ("dp",)), dp=2, tp=2), 3, maker)
    given: dict[str, Any] = {"source": SOURCE, "target": TARGET, **more}
    command = Collective(2, kind, "dp", MEMBERS, 0, "bf16", 16, accumulate="f32", **given)
    channels.move(command, 100, 200, STREAM)
    assert maker.calls == calls


def test_a_channel_that_failed_is_named_and_all_are_given_up() -> None:
    job = _job(Channel("dp", ("dp",)), Channel("tp", ("tp",)), dp=2, tp=2)
    assert Channels(job, 0, Maker()).failed() is None
    maker = Maker("unhandled system error")
    channels = Channels(job, 0, maker)
    assert channels.failed() == "channel dp: unhandled system error"
    channels.abort()
    assert maker.calls == [("abort", (0, 2)), ("abort", (0, 1))]
