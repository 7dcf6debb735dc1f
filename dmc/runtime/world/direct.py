"""Movements between the GPUs of one host by their copy engines: each rank copies what it receives out of the others'
arenas, and some of what others gather into theirs.

A copy engine takes neither multiprocessors nor much power from the kernels beside it, which NCCL's kernels do. What
adds values is left to NCCL (`dm-exchange-sums` makes most sums out of movements), and so are small movements, whose
latency is lower there, and movements between hosts.

A movement has two parts, on the stream of its lane: each member tells the others that its source is ready, and waits
for theirs; then it copies, out of each one's memory on a stream of its own, since a copy of a few megabytes is mostly
latency. So a target is not read before it is written. That all have copied is told by the next meeting, or by one more
where none comes in time (`dmc.runtime.world.meetings`): so a source is not written before it is read. Meetings take
turns with three flags for each member, two before movements and one behind: a flag is raised by one rank, awaited and
lowered by another, and raised again only after that rank has told the next thing: a flag is never raised twice.

What a rank keeps of a movement it copies meanwhile. Within a device CUDA copies by a kernel, which waits until those
beside it, which fill the multiprocessors, are done: 50 to 150 µs in a step of GPT-2. So a small piece that all gather,
and that a neighbour therefore has anyway, that neighbour's copy engine brings back over the link, and tells so. A rank
that has given up waits for nobody (`Neighbours.give_up`), and so may write into an arena at any time: what is read of
one counts only if nobody has given up when it has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from dmc.program import COPIED, COPIED_BYTES, DEVICE, Collective, Job, Range
from dmc.runtime.world.meetings import Group, Movement, meetings_of, movement_of
from dmc.runtime.world.neighbours import Neighbours

# Sets of flags: meetings before movements take turns with the first ones.
_TURNS, _BEHIND, _SETS = 2, 2, 3
# Over a link these bytes take as long as a kernel that copies waits for others.
_BROUGHT_BYTES = 16 << 20

# The part of each member in a movement, by rank.
Parts: TypeAlias = Callable[[Collective], Mapping[int, Collective]]


def parts_of(job: Job) -> Parts:
    """The parts of the members in each movement of a job."""
    found: dict[Movement, dict[int, Collective]] = {}
    for program in job.programs:
        for command in program.commands:
            if isinstance(command, Collective):
                found.setdefault(movement_of(command), {})[program.rank] = command
    return lambda command: found[movement_of(command)]


class DirectCopies:
    """The movements of one job between neighbours."""

    def __init__(self, job: Job, rank: int, groups: Sequence[Group], neighbours: Neighbours, first: int = 0) -> None:
        """groups: of all ranks, with their channels, in declared order. first: the job's first flag."""
        self._rank, self._neighbours = rank, neighbours
        begins = accumulate((_flags(ranks) for _, ranks in groups), initial=first)
        self._first = dict(zip(groups, begins, strict=False))
        self._parts = parts_of(job)
        on_host = [each for each in neighbours.arenas if each < job.size]
        self._meetings = meetings_of(job, rank, on_host, self.carries)
        # Events behind the meetings before movements.
        self._met: dict[Movement, Any] = {}

    @staticmethod
    def flags(groups: Sequence[Group]) -> int:
        """How many flags a rank needs for these groups."""
        return sum(_flags(ranks) for _, ranks in groups)

    def carries(self, command: Collective) -> bool:
        """Whether a movement is made this way; all its members answer the same."""
        reached = self._neighbours.arenas.keys() >= set(command.ranks)
        if command.kind not in COPIED or len(command.ranks) == 1 or not reached:
            return False
        ranges = [each for part in self._parts(command).values() for each in (part.source, part.target) if each]
        return all(each.space == DEVICE for each in ranges) and max(each.length for each in ranges) >= COPIED_BYTES

    def move(self, command: Collective, stream: Any) -> None:
        """Queues this rank's part."""
        memory, copies, movement = self._neighbours.memory, self._by_other(command), movement_of(command)
        kept = copies.pop(self._rank, ())
        if kept:
            self._copy(kept, memory.fork(stream, 0))
        self._meet(command, self._meetings.number[movement] % _TURNS, stream)
        self._met[movement] = memory.record(stream)
        beside = [memory.fork(stream, number) for number in range(1, len(copies))]
        for of_one, on in zip(copies.values(), [stream, *beside], strict=False):
            self._copy(of_one, on)
        for number in range(0 if kept else 1, 1 + len(beside)):
            memory.join(stream, number)
        if movement in self._meetings.ended:
            self._meet(command, _BEHIND, stream)
        elif any(each.taker != self._rank for every in copies.values() for each in every):
            self._tell_next(command, stream)

    def before(self, place: int, stream: Any) -> None:
        """Lets a stream wait until others have copied what the command at `place` of the program overwrites."""
        for movement in self._meetings.awaited.get(place, ()):
            self._neighbours.memory.wait(stream, self._met[movement])

    def _by_other(self, command: Collective) -> dict[int, list[_Copy]]:
        """This rank's copies, in order, by the rank whose memory they take part in; those within its own by its own."""
        found: dict[int, list[_Copy]] = {}
        for each in _copies(command, self._parts(command), self._rank):
            found.setdefault(each.taker if each.giver == self._rank else each.giver, []).append(each)
        return found

    def _copy(self, copies: Sequence[_Copy], stream: Any) -> None:
        arenas = self._neighbours.arenas
        for each in copies:
            source = arenas[each.giver] + each.source.offset
            target = arenas[each.taker] + each.target.offset
            self._neighbours.memory.copy(target, source, each.source.length, stream)

    def _meet(self, command: Collective, what: int, stream: Any) -> None:
        ranks, flag = command.ranks, self._neighbours.flag
        first = self._first[command.channel, ranks] + what * len(ranks)
        others = [place for place, rank in enumerate(ranks) if rank != self._rank]
        raised = [flag(ranks[place], first + ranks.index(self._rank)) for place in others]
        awaited = [flag(self._rank, first + place) for place in others]
        self._neighbours.memory.meet(raised, awaited, stream)

    def _tell_next(self, command: Collective, stream: Any) -> None:
        """Tells the next member that its piece is there, and waits for what the one before tells."""
        ranks, flag = command.ranks, self._neighbours.flag
        number = self._first[command.channel, ranks] + _SETS * len(ranks)
        following = ranks[(ranks.index(self._rank) + 1) % len(ranks)]
        self._neighbours.memory.meet([flag(following, number)], [flag(self._rank, number)], stream)


def _flags(ranks: Sequence[int]) -> int:
    """Those of a group: for each meeting one for each member, and one that tells of the own piece."""
    return _SETS * len(ranks) + 1


class _Copy(NamedTuple):
    """giver, taker: the ranks that hold `source` and `target`."""

    giver: int
    source: Range
    taker: int
    target: Range


def _copies(command: Collective, parts: Mapping[int, Collective], rank: int) -> Iterator[_Copy]:
    """What a rank copies. Each member begins with the next one, so that no source is read by all at once."""
    ranks, own, target = command.ranks, command.ranks.index(rank), parts[rank].target
    if target is None:
        return
    order = [(own + step) % len(ranks) for step in range(1, len(ranks) + 1)]
    match command.kind:
        case "all_gather":
            for place in order:
                source = _source(parts[ranks[place]])
                if place != own:
                    yield _Copy(ranks[place], source, rank, _part(target, place, source.length))
                elif source.length > _BROUGHT_BYTES:
                    yield _Copy(rank, source, rank, _part(target, own, source.length))
            yield from _brought_back(command, parts, rank, target)
        case "all_to_all":
            piece = target.length // len(ranks)
            for place in order:
                source = _source(parts[ranks[place]])
                yield _Copy(ranks[place], _part(source, own, piece), rank, _part(target, place, piece))
        case "broadcast":
            assert command.peer is not None, "checked by the proof"
            yield _Copy(ranks[command.peer], _source(parts[ranks[command.peer]]), rank, target)
        case _:
            for giver, taker in command.pairs:
                if taker == own:
                    yield _Copy(ranks[giver], _source(parts[ranks[giver]]), rank, target)


def _brought_back(command: Collective, parts: Mapping[int, Collective], rank: int, target: Range) -> Iterator[_Copy]:
    """The piece of the next member, which a rank has gathered before, back to where that member gathers it."""
    ranks = command.ranks
    place = (ranks.index(rank) + 1) % len(ranks)
    length, there = _source(parts[ranks[place]]).length, parts[ranks[place]].target
    if length <= _BROUGHT_BYTES and there is not None:
        yield _Copy(rank, _part(target, place, length), ranks[place], _part(there, place, length))


def _source(command: Collective) -> Range:
    assert command.source is not None, "a member that gives has a source"
    return command.source


def _part(whole: Range, index: int, length: int) -> Range:
    return Range(whole.space, whole.offset + index * length, length)
