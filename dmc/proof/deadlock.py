"""V5: no ranks wait for each other in a cycle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dmc.errors import ProofError
from dmc.program import Await, Collective, Job, Program, Record
from dmc.proof.instances import key_of
from dmc.proof.story import lane_name, what


def check_deadlock(job: Job) -> None:
    """Raises ProofError, showing the cycle, if the job cannot terminate.

    A graph over all ranks: a node for each command, one for all parts of a movement (it begins when all members have
    reached it); edges along each lane and from records to awaits. The job terminates if and only if the graph has no
    cycle, because nothing else waits. Order within each communicator is not enough: three pairwise groups in a ring,
    each with only one movement, can wait for one another. Kahn's algorithm; linear in commands. Needs V1, V3 and V4.

    Classes are looked at first, as if each were one rank, and movements of one number in all groups of a channel were
    one. What this maps ranks, their commands and movements to keeps every edge, so a cycle of ranks would be one of
    classes. A cycle of classes alone may be none: then ranks are looked at one by one.
    """
    classes = [each.program for each in job.classes]
    if _stuck(_graph(classes, lambda _, command: (command.channel, command.instance))) is None:
        return
    graph = _graph(job.programs, key_of)
    if (found := _stuck(graph)) is not None:
        raise ProofError(
            "V5",
            None,
            f"the step never ends:\n{_story(job, graph, _circle(graph, *found))}",
            "issue the movements in one order on all ranks, or drop an event of the cycle",
        )


@dataclass(frozen=True)
class _Edge:
    """One command of a rank waits for another of the same rank, by index."""

    rank: int
    first: int
    second: int


@dataclass
class _Graph:
    """before[n]: the edges into node n with their source nodes; after[n]: the nodes that wait for n."""

    before: list[list[tuple[int, _Edge]]] = field(default_factory=list)
    after: list[list[int]] = field(default_factory=list)

    def node(self) -> int:
        """A new node."""
        self.before.append([])
        self.after.append([])
        return len(self.before) - 1

    def connect(self, first: int, second: int, edge: _Edge) -> None:
        """Makes `second` wait for `first`."""
        self.before[second].append((first, edge))
        self.after[first].append(second)


def _graph(programs: Sequence[Program], key: Callable[[Program, Collective], object]) -> _Graph:
    """The graph of programs, in which movements of one key are one node."""
    graph = _Graph()
    shared: defaultdict[object, int] = defaultdict(graph.node)
    for program in programs:
        nodes: list[int] = []
        last: dict[int, int] = {}
        recorded: dict[int, int] = {}
        for index, command in enumerate(program.commands):
            is_shared = isinstance(command, Collective)
            nodes.append(shared[key(program, command)] if is_shared else graph.node())
            waits = [last[command.lane]] if command.lane in last else []
            if isinstance(command, Await):
                waits.append(recorded[command.event])
            for first in waits:
                graph.connect(nodes[first], nodes[index], _Edge(program.rank, first, index))
            last[command.lane] = index
            if isinstance(command, Record):
                recorded[command.event] = index
    return graph


def _stuck(graph: _Graph) -> tuple[list[int], int] | None:
    """For each node how many it still waits for at the end, and one that waits; None if all come to an end."""
    waiting = [len(before) for before in graph.before]
    ready = [node for node, count in enumerate(waiting) if not count]
    while ready:
        for node in graph.after[ready.pop()]:
            waiting[node] -= 1
            if not waiting[node]:
                ready.append(node)
    stuck = next((node for node, count in enumerate(waiting) if count), None)
    return None if stuck is None else (waiting, stuck)


def _circle(graph: _Graph, waiting: Sequence[int], stuck: int) -> list[_Edge]:
    """A cycle, listed backwards: each edge's second command waits for its first. Every stuck node waits for another."""
    seen: dict[int, int] = {}
    edges: list[_Edge] = []
    node = stuck
    while node not in seen:
        seen[node] = len(edges)
        node, edge = next((first, edge) for first, edge in graph.before[node] if waiting[first])
        edges.append(edge)
    return edges[seen[node] :]


def _story(job: Job, graph: _Graph, circle: list[_Edge]) -> str:
    """One line per rank's stretch of the cycle, which begins and ends in a movement."""
    starts = [
        i for i, edge in enumerate(circle) if isinstance(job.programs[edge.rank].commands[edge.second], Collective)
    ]
    turned = [*circle[starts[0] :], *circle[: starts[0]]]
    lines: list[str] = []
    stretch: list[_Edge] = []
    for edge in turned:
        stretch.append(edge)
        program = job.programs[edge.rank]
        if isinstance(program.commands[edge.first], Collective):
            lines.append(_line(program, stretch))
            stretch = []
    return "\n".join(f"  {line}" for line in lines)


def _line(program: Program, stretch: list[_Edge]) -> str:
    entered, left = stretch[0].second, stretch[-1].first
    wanted, held = program.commands[entered], program.commands[left]
    assert isinstance(held, Collective), "a stretch ends in a movement"
    between = [what(program.commands[edge.first]) for edge in stretch[:-1]]
    path = f", by way of {' ← '.join(between)}," if between else ""
    others = [rank for rank in key_of(program, held)[2] if rank != program.rank]
    return (
        f"rank {program.rank} cannot begin {what(wanted)} (command {entered}, lane "
        f"{lane_name(program, wanted.lane)}){path} before {what(held)} (command {left}, lane "
        f"{lane_name(program, held.lane)}), where it waits for {_ranks(others)}"
    )


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
