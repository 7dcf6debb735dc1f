"""Events order exactly what must be ordered, and no event is superfluous."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from dmc.analysis.commands.clocks import Clocks, is_before
from dmc.analysis.commands.events import Edge, needed_edges, with_events
from dmc.mesh import Mesh
from dmc.program import Await, Buffer, Class, Command, Lane, Launch, Program, Range, Record, Slice, accesses, covering

LANES = tuple(Lane(f"lane{i}", "compute") for i in range(3))
RANGES = st.builds(lambda first, length: Range("device", first, length), st.integers(0, 12), st.integers(1, 6))
LAUNCHES = st.builds(
    lambda lane, reads, writes: Launch(lane, "k", tuple(reads), tuple(writes)),
    st.integers(0, len(LANES) - 1),
    st.lists(RANGES, max_size=2),
    st.lists(RANGES, max_size=2),
)


def _program(commands: list[Launch]) -> Program:
    return Program(0, {"device": 20}, LANES, (), tuple(commands))


def _ordered(program: Program) -> dict[tuple[int, int], bool]:
    """For each pair of launches, in the order of issue, whether the first is done when the second begins."""
    clocks, places = Clocks(len(program.lanes)), [0] * len(program.lanes)
    launches: list[tuple[int, int]] = []
    ordered: dict[tuple[int, int], bool] = {}
    for command in program.commands:
        if isinstance(command, Launch):
            before = clocks.before(command.lane)
            second = len(launches)
            ordered |= {(first, second): is_before(*launches[first], before) for first in range(second)}
            launches.append((command.lane, places[command.lane]))
        places[command.lane] += 1
        clocks.issue(command)
    return ordered


def _conflict(one: Command, other: Command) -> bool:
    (reads, writes), (others_reads, others_writes) = accesses(one), accesses(other)
    pairs = [*product(writes, others_writes), *product(writes, others_reads), *product(reads, others_writes)]
    return any(a.overlaps(b) for a, b in pairs)


@given(st.lists(LAUNCHES, max_size=12))
def test_conflicts_are_ordered(commands: list[Launch]) -> None:
    program = _program(commands)
    ordered = _ordered(with_events(program, needed_edges(program)))
    for (first, second), is_ordered in ordered.items():
        assert is_ordered or not _conflict(commands[first], commands[second])


@given(st.lists(LAUNCHES, max_size=10))
def test_no_edge_is_superfluous(commands: list[Launch]) -> None:
    program = _program(commands)
    edges = needed_edges(program)
    for left_out in edges:
        fewer = with_events(program, [edge for edge in edges if edge != left_out])
        ordered = _ordered(fewer)
        conflicts = [pair for pair in ordered if _conflict(commands[pair[0]], commands[pair[1]])]
        assert not all(ordered[pair] for pair in conflicts)


def test_what_one_rank_needs_all_ranks_get() -> None:
    """The second of two ranks reads what was written."""
    write = Launch(0, "k", (), (Range("device", 4, 4),))
    read = Launch(1, "k", (Range("device", 0, 4),), (), slices=(Slice(0, {"dp": 4}),))
    own = Class((0, 1), _program([write, read]))
    assert needed_edges(own.program) == ()
    assert needed_edges(covering(own, Mesh(dp=2))) == (Edge(0, 1),)


def test_one_event_serves_several_lanes() -> None:
    shared = Range("device", 0, 4)
    program = _program([Launch(0, "k", (), (shared,)), Launch(1, "k", (shared,), ()), Launch(2, "k", (shared,), ())])
    commands = with_events(program, needed_edges(program)).commands
    assert [type(command) for command in commands] == [Launch, Record, Await, Launch, Await, Launch]


def test_buffers_keep_naming_the_commands_that_they_named() -> None:
    shared = Range("device", 0, 4)
    launches = (Launch(0, "k", (), (shared,)), Launch(1, "k", (shared,), ()))
    buffers = (Buffer("x", "activation", shared, 0, 1),)
    program = Program(0, {"device": 4}, LANES, (), launches, buffers)
    changed = with_events(program, needed_edges(program))
    (buffer,) = changed.buffers
    assert [changed.commands[buffer.first], changed.commands[buffer.last]] == list(launches)


def test_events_that_are_there_count() -> None:
    shared = Range("device", 0, 4)
    commands = (Launch(0, "k", (), (shared,)), Record(0, 0), Await(1, 0), Launch(1, "k", (shared,), ()))
    assert needed_edges(Program(0, {"device": 4}, LANES, (), commands)) == ()
