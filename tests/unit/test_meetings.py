"""Where ranks meet around movements that they copy: nothing is overwritten that another may still read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dmc.program import Await, Channel, Collective, Command, Job, Lane, Move, Program, Range, Record
from dmc.runtime.world.meetings import meetings_of, movement_of
from tests.rank_programs import with_programs

ROWS, COLUMNS = ((0, 1), (2, 3)), ((0, 2), (1, 3))
CHANNELS = (Channel("rows", groups=ROWS), Channel("columns", groups=COLUMNS))
LANES = (
    Lane("compute", "compute"),
    Lane("in", "copy_in"),
    Lane("rows", "comm", "rows"),
    Lane("columns", "comm", "columns"),
)
WRITERS, BUFFERS, BYTES = (0, 1), 4, 64
# A writer's lane and a buffer; or a channel's number, and the buffers of a movement.
Written = tuple[int, int]
Moved = tuple[int, int, int]


def _range(buffer: int) -> Range:
    return Range("device", BYTES * buffer, BYTES)


def _moved(rank: int, number: int, channel: int, source: int, target: int) -> Collective:
    group = next(each for each in (ROWS, COLUMNS)[channel] if rank in each)
    name = CHANNELS[channel].name
    return Collective(2 + channel, "all_to_all", name, group, number, "i8", BYTES, _range(source), _range(target))


def _commands(rank: int, drawn: Sequence[Written | Moved]) -> Iterator[Command]:
    """Each waits for all that was issued before on other lanes: as a plan allows reuse, and more."""
    events = itertools.count()
    last: dict[int, int] = {}
    for number, each in enumerate(drawn):
        lane = each[0] if len(each) == 2 else 2 + each[0]
        yield from (Await(lane, event) for other, event in last.items() if other != lane)
        yield (
            Move(lane, Range("pinned_host", 0, BYTES), _range(each[1]))
            if len(each) == 2
            else _moved(rank, number, *each)
        )
        last[lane] = next(events)
        yield Record(lane, last[lane])


def _job(drawn: Sequence[Written | Moved]) -> Job:
    programs = tuple(Program(rank, {}, LANES, (), tuple(_commands(rank, drawn))) for rank in range(4))
    return Job.of({"a": 2, "b": 2}, CHANNELS, {}, programs)


def _graph(job: Job) -> dict[Any, set[Any]]:
    """What each point of each command comes after: begun, met, copied, done."""
    after: dict[Any, set[Any]] = {}
    for program in job.programs:
        rank, last, recorded = program.rank, dict[int, Any](), dict[int, Any]()
        meetings = meetings_of(job, rank, range(4), lambda _: True)
        for place, each in enumerate(program.commands):
            begun, done = (rank, place, "begun"), (rank, place, "done")
            after[begun] = {last[each.lane]} if each.lane in last else set()
            after[begun] |= {(rank, _places(program)[one], "met") for one in meetings.awaited.get(place, ())}
            after[done], last[each.lane] = {begun}, done
            if isinstance(each, Record):
                recorded[each.event] = done
            elif isinstance(each, Await):
                after[done].add(recorded[each.event])
            elif isinstance(each, Collective):
                _add_movement(after, rank, place, each, movement_of(each) in meetings.ended)
    return after


def _places(program: Program) -> dict[Any, int]:
    every = enumerate(program.commands)
    return {movement_of(each): place for place, each in every if isinstance(each, Collective)}


def _add_movement(after: dict[Any, set[Any]], rank: int, place: int, command: Collective, is_ended: bool) -> None:
    """A movement has the same place in all programs."""
    after[rank, place, "met"] = {(other, place, "begun") for other in command.ranks}
    after[rank, place, "copied"] = {(rank, place, "met")}
    copied = command.ranks if is_ended else (rank,)
    after[rank, place, "done"] |= {(other, place, "copied") for other in copied}


def _ancestors(after: dict[Any, set[Any]], point: Any) -> set[Any]:
    found, pending = set[Any](), [point]
    while pending:
        new = after[pending.pop()] - found
        found |= new
        pending += new
    return found


WRITES = st.tuples(st.sampled_from(WRITERS), st.integers(0, BUFFERS - 1))
MOVES = st.tuples(st.integers(0, 1), st.integers(0, BUFFERS - 1), st.integers(BUFFERS, BUFFERS + 1))


@given(st.lists(WRITES | MOVES, max_size=14))
def test_a_source_is_written_after_all_have_copied_it(drawn: list[Written | Moved]) -> None:
    job = _job(drawn)
    after = _graph(job)
    tuple(TopologicalSorter(after).static_order())
    for program, (place, moved), (later, writer) in _pairs(job):
        if later > place and moved.source == writer.target:
            copied = {(other, place, "copied") for other in moved.ranks}
            assert copied <= _ancestors(after, (program.rank, later, "begun"))


def _pairs(job: Job) -> Iterator[tuple[Program, tuple[int, Collective], tuple[int, Move]]]:
    for program in job.programs:
        every = list(enumerate(program.commands))
        moved = [(place, each) for place, each in every if isinstance(each, Collective)]
        written = [(place, each) for place, each in every if isinstance(each, Move)]
        yield from ((program, one, other) for one, other in itertools.product(moved, written))


def _ended(job: Job, rank: int = 0) -> list[int]:
    return sorted({number for number, _ in meetings_of(job, rank, range(4), lambda _: True).ended})


def test_ranks_meet_behind_the_last_movement_and_where_a_source_is_reused_at_once() -> None:
    assert _ended(_job([(0, 0, 4), (0, 1, 4), (0, 2, 4)])) == [2]
    assert _ended(_job([(0, 0, 4), (1, 0), (0, 1, 4), (1, 1, 4)])) == [0, 2, 3]
    # Its own target is written before ranks have met.
    assert _ended(_job([(0, 0, 4), (0, 1, 0), (0, 2, 4)])) == [0, 2]


def test_ranks_meet_behind_a_movement_where_the_next_is_on_another_lane() -> None:
    job = _job([(0, 0, 4), (0, 1, 4), (0, 2, 4)])

    def turned(command: Command) -> Command:
        is_second = isinstance(command, Collective) and command.instance == 1
        return replace(command, lane=3) if is_second else command

    programs = [replace(each, commands=tuple(map(turned, each.commands))) for each in job.programs]
    assert _ended(with_programs(job, programs)) == [0, 1, 2]


def test_the_first_that_overwrites_a_source_waits_on_each_lane() -> None:
    job = _job([(0, 0, 4), (0, 1, 4), (1, 0), (0, 0), (1, 0)])
    awaited = meetings_of(job, 0, range(4), lambda _: True).awaited
    writers = [place for place, each in enumerate(job.programs[0].commands) if isinstance(each, Move)]
    assert awaited == dict.fromkeys(writers[:2], ((1, ("rows", (0, 1))),))


def test_ranks_that_have_movements_in_other_orders_meet_behind_all() -> None:
    job = _job([(0, 0, 4), (1, 1, 5), (0, 2, 4), (1, 3, 5)])
    assert _ended(job) == [2, 3]
    first, *others = job.programs
    moved = [each for each in first.commands if isinstance(each, Collective)]
    turned = Program(0, {}, LANES, (), (moved[1], moved[0], moved[3], moved[2]))
    assert _ended(Job.of(job.mesh, job.channels, {}, (turned, *others))) == [0, 1, 2, 3]


def test_the_graph_of_a_wait_for_what_comes_later_has_a_circle() -> None:
    after = _graph(_job([(0, 0, 4), (0, 1, 4)]))
    after[0, 0, "begun"].add((0, 2, "met"))
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(after).static_order())
