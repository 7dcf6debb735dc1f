"""The events that a rank's lanes require so that conflicting commands run in the order of issue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from dmc.analysis.commands.clocks import Clock, Clocks, uncovered
from dmc.analysis.commands.conflicts import Memory, Place
from dmc.program import Await, Command, Program, Range, Record, Space, accesses


@dataclass(frozen=True)
class Edge:
    """Command `target` waits for command `source`; both count from 0 in the order of issue."""

    source: int
    target: int


def needed_edges(program: Program, in_turn: bool = False) -> tuple[Edge, ...]:
    """The fewest edges between lanes that order all conflicting accesses.

    program: of a rank; or of a class, with reads that cover those of all its ranks. Two accesses conflict where they
    share a byte and one of them writes; each edge follows the order of issue. Existing events of the program are taken
    into account. in_turn: each command also waits for the one before it, whatever they access. Linear in commands,
    times the logarithm of the arena's segments.
    """
    memories: defaultdict[Space, Memory] = defaultdict(Memory)
    clocks = Clocks(len(program.lanes))
    after: dict[Place, Clock] = {}
    number: dict[Place, int] = {}
    counts = [0] * len(program.lanes)
    edges: list[Edge] = []
    last: Place | None = None
    for index, command in enumerate(program.commands):
        place = (command.lane, counts[command.lane])
        counts[command.lane] += 1
        number[place] = index
        needed: dict[int, int] = {}
        is_work = in_turn and not isinstance(command, Record | Await)
        if is_work and last is not None and last[0] != command.lane:
            needed[last[0]] = last[1]
        for lane, at in _conflicts(memories, accesses(command), place):
            if lane != command.lane:
                needed[lane] = max(at, needed.get(lane, -1))
        for source in uncovered(needed, after, clocks.before(command.lane)).items():
            edges.append(Edge(number[source], index))
            clocks.join(command.lane, after[source])
        after[place] = clocks.issue(command)
        last = place if is_work else last
    return tuple(edges)


def with_events(program: Program, edges: Sequence[Edge]) -> Program:
    """The program with an event for every edge: recorded after its source, awaited before its target.

    Edges from one source share one event. Buffers still refer to the same commands.
    """
    used = {command.event for command in program.commands if isinstance(command, Record)}
    fresh = iter(range(max(used, default=-1) + 1, max(used, default=-1) + 1 + len(edges)))
    events: dict[int, int] = {}
    awaited: defaultdict[int, list[int]] = defaultdict(list)
    for edge in edges:
        if edge.source not in events:
            events[edge.source] = next(fresh)
        awaited[edge.target].append(events[edge.source])
    commands: list[Command] = []
    moved: list[int] = []
    for index, command in enumerate(program.commands):
        commands += [Await(command.lane, event) for event in awaited[index]]
        moved.append(len(commands))
        commands.append(command)
        if index in events:
            commands.append(Record(command.lane, events[index]))
    buffers = tuple(
        msgspec.structs.replace(buffer, first=moved[buffer.first], last=moved[buffer.last])
        for buffer in program.buffers
    )
    return msgspec.structs.replace(program, commands=tuple(commands), buffers=buffers)


def _conflicts(
    memories: defaultdict[Space, Memory], touched: tuple[Iterable[Range], Iterable[Range]], by: Place
) -> Iterator[Place]:
    reads, writes = touched
    # Reads first: an in-place command must come after the writer of what it reads.
    for where in sorted({*reads}):
        yield from memories[where.space].read(where, by)
    for where in sorted({*writes}):
        yield from memories[where.space].write(where, by)
