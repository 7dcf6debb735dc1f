"""Where a rank is, as its flight recorder says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from dmc.program import Collective, Lane, Launch, Move, Program, Range, Record
from dmc.runtime.sessions.replay.progress import Progress
from dmc.runtime.world.recorder import Recorder

HERE = Range("device", 0, 4)
LANES = (Lane("compute", "compute"), Lane("dp", "comm", "dp"), Lane("tp", "comm", "tp"))


def reduce(lane: int, label: str) -> Collective:
    return Collective(lane, "all_reduce", LANES[lane].name, (0, 1), 0, "f32", 1, HERE, HERE, "sum", "f32", label=label)


COMMANDS = (
    Launch(0, "k", (), (HERE,), label="h.0.mlp"),
    reduce(1, "first"),
    Record(1, 0),
    reduce(2, "second"),
    reduce(1, "third"),
    Move(0, HERE, HERE, label="loss"),
)
PROGRAM = Program(0, {}, LANES, (), COMMANDS)


def test_a_host_that_issues_commands_knows_where_it_is() -> None:
    recorder = Recorder(PROGRAM)
    assert recorder.position().text == "before its first step"
    recorder.begin(7)
    said: list[str] = []
    for place in (0, 1, 2, 5):
        recorder.reach(place)
        said.append(recorder.position().text)
    assert said == [
        "in step 7, command 0 of 6: kernel k of h.0.mlp",
        "in step 7, command 1 of 6: all_reduce of first over dp (ranks 0, 1)",
        "in step 7, command 2 of 6: an event",
        "in step 7, command 5 of 6: copy of loss",
    ]
    recorder.reach(None)
    assert recorder.position().text.startswith("in user code after step 7 (")
    with recorder.waiting():
        assert recorder.position().text == "in step 7"
        assert recorder.position().is_waiting
    recorder.reach(5)
    recorder.begin(8)
    assert recorder.position().text.startswith("in user code after step 8 (")
    recorder.has_left = True
    assert recorder.position().text == "at its end, after step 8"


def device(copies: list[tuple[Any, ...]]) -> Any:
    """A device whose memory begins at 1000 and that writes its copies down."""
    return SimpleNamespace(
        allocate=lambda length: SimpleNamespace(ptr=1000),
        upload=lambda pointer, data: copies.append((pointer, *np.frombuffer(data, np.int64))),
        allocate_pinned=Pinned,
        copy=lambda *given: copies.append(given),
        record=lambda lane: lane,
        wait=lambda lane, event: copies.append(("wait", lane, event)),
    )


def test_movements_that_follow_each_other_are_told_apart() -> None:
    progress = Progress(device([]), Program(0, {}, LANES, (), (reduce(1, "first"), reduce(1, "second"))))
    found: list[int | None] = []
    for number in (0, 1, 2):
        progress._done[1] = number  # pyright: ignore[reportPrivateUsage]
        found.append(progress.unfinished())
    assert found == [0, 1, None]


def test_a_device_tells_by_the_movements_that_have_ended() -> None:
    copies: list[tuple[Any, ...]] = []
    progress, recorder = Progress(device(copies), PROGRAM), Recorder(PROGRAM)
    recorder.unfinished = lambda: None if (place := progress.unfinished()) is None else (3, place, PROGRAM)
    progress.mark(2, 3)
    # What is copied to the lane's number is the place behind the movement's; the next movement does not wait for it.
    own = len(LANES)
    assert copies == [(1000, 1, 2, 3, 4, 5, 6, 7), ("wait", own, 2), (own, Pinned.ptr + 16, 1000 + 24, 8)]
    recorder.begin(4)
    done: Any = progress._done  # pyright: ignore[reportPrivateUsage]
    found: list[int | None] = []
    for lane, number in ((0, 0), (2, 4), (1, 2), (1, 5)):
        done[lane] = number
        found.append(progress.unfinished())
        assert found[-1] is None or recorder.position().text.startswith(f"in step 3, command {found[-1]} of 6: ")
    assert found == [1, 1, 4, None]
    progress.reset()
    assert progress.unfinished() == 1


class Pinned(bytearray):
    """Memory of the host."""

    ptr = 5000
