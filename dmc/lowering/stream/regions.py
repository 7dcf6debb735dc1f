"""A job → regions of work between events: one order of all ranks' commands, split where lanes wait for each other."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dmc.errors import DmcError
from dmc.program import Await, Collective, Job, Launch, Move, Program, Record
from dmc.program.collectives import MESSAGES

# A lane of a rank: (rank, index of the lane).
LaneId: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Rendezvous:
    """A movement between ranks: each member's command, by rank, in group order."""

    members: Mapping[int, Collective]


@dataclass(frozen=True)
class Local:
    """Work of a single rank."""

    rank: int
    work: Launch | Move


Item: TypeAlias = Local | Rendezvous


@dataclass
class Region:
    """Sequential work on the device of the lane `on`, once the regions `awaits` are done.

    `lanes` continue when all of it is done.
    """

    on: LaneId
    lanes: frozenset[LaneId]
    awaits: tuple[int, ...]
    items: list[Item] = field(default_factory=list)
    is_open: bool = True


@dataclass(frozen=True)
class Regions:
    """All regions of a job, each after those it awaits; `last`: the final regions of the lanes."""

    regions: tuple[Region, ...]
    last: tuple[int, ...]


def regions_of(job: Job) -> Regions:
    """Splits the job into as few regions as its events allow.

    Commands are taken in an order consistent with every lane; ties go by position in their program. Raises DmcError if
    there is no such order: the lanes would wait for each other forever.
    """
    cutter = _Cutter(job.programs)
    cutter.run()
    last = {region for lane in cutter.lanes.values() for region in lane.after}
    return Regions(tuple(cutter.regions), tuple(sorted(last)))


@dataclass
class _Lane:
    """The progress of a lane. after: the regions it follows; pending: those it also awaits."""

    commands: list[tuple[int, Launch | Move | Collective | Record | Await]]
    next: int = 0
    after: frozenset[int] = frozenset()
    open: int | None = None


class _Cutter:
    def __init__(self, programs: Iterable[Program]) -> None:
        self.lanes = {(program.rank, index): _Lane([]) for program in programs for index in range(len(program.lanes))}
        for program in programs:
            for position, command in enumerate(program.commands):
                self.lanes[program.rank, command.lane].commands.append((position, command))
        self.regions: list[Region] = []
        self._events: dict[tuple[int, int], frozenset[int]] = {}
        self._waiting: dict[tuple[int, int], list[LaneId]] = {}
        self._arrived: dict[tuple[int, tuple[int, ...]], dict[int, LaneId]] = {}
        # Lanes whose next command may run, by the position of the command.
        self._ready: list[tuple[int, LaneId]] = []

    def run(self) -> None:
        """Processes every command; raises DmcError if none can run."""
        for lane in self.lanes:
            self._look_at(lane)
        while self._ready:
            _, lane = heapq.heappop(self._ready)
            self._take(lane)
        stuck = [lane for lane, state in self.lanes.items() if state.next < len(state.commands)]
        if stuck:
            waits = "; ".join(self._story(lane) for lane in stuck[:4])
            raise DmcError("job", f"its lanes wait for each other: {waits}", hint="dm-verify shows the whole cycle")

    def _look_at(self, lane: LaneId) -> None:
        """Determines when the next command of a lane may run."""
        state = self.lanes[lane]
        if state.next == len(state.commands):
            return
        position, command = state.commands[state.next]
        match command:
            case Await() if (lane[0], command.event) not in self._events:
                self._waiting.setdefault((lane[0], command.event), []).append(lane)
            case Collective():
                arrived = self._arrived.setdefault((command.instance, command.ranks), {})
                arrived[lane[0]] = lane
                if len(arrived) == _member_count(command):
                    heapq.heappush(self._ready, (position, lane))
            case _:
                heapq.heappush(self._ready, (position, lane))

    def _take(self, lane: LaneId) -> None:
        state = self.lanes[lane]
        _, command = state.commands[state.next]
        match command:
            case Launch() | Move():
                self._region_for(frozenset((lane,))).items.append(Local(lane[0], command))
                self._advance(lane)
            case Collective():
                self._meet(command)
            case Await():
                self._await(state, self._events[lane[0], command.event])
                self._advance(lane)
            case Record():
                self._record(lane, command.event)

    def _meet(self, command: Collective) -> None:
        arrived = self._arrived.pop((command.instance, command.ranks))
        order = [rank for rank in command.ranks if rank in arrived]
        lanes = frozenset(arrived[rank] for rank in order)
        members: dict[int, Collective] = {}
        for rank in order:
            _, own = self.lanes[arrived[rank]].commands[self.lanes[arrived[rank]].next]
            assert isinstance(own, Collective)
            members[rank] = own
        self._region_for(lanes).items.append(Rendezvous(members))
        for rank in order:
            self._advance(arrived[rank])

    def _region_for(self, lanes: frozenset[LaneId]) -> Region:
        """The region that these lanes are in, or a new one after all those that they follow."""
        states = [self.lanes[lane] for lane in sorted(lanes)]
        current = {state.open for state in states}
        if len(current) == 1 and (index := current.pop()) is not None:
            region = self.regions[index]
            if region.is_open and region.lanes == lanes:
                return region
        awaits = frozenset[int]().union(*(state.after for state in states))
        region = Region(min(lanes), lanes, tuple(sorted(awaits)))
        for state in states:
            state.open, state.after = len(self.regions), frozenset((len(self.regions),))
        self.regions.append(region)
        return region

    def _await(self, state: _Lane, event: frozenset[int]) -> None:
        if event <= state.after:
            return
        state.after |= event
        state.open = None

    def _record(self, lane: LaneId, event: int) -> None:
        state = self.lanes[lane]
        if state.open is not None:
            self.regions[state.open].is_open = False
        self._events[lane[0], event] = state.after
        self._advance(lane)
        for waiting in self._waiting.pop((lane[0], event), ()):
            self._look_at(waiting)

    def _advance(self, lane: LaneId) -> None:
        self.lanes[lane].next += 1
        self._look_at(lane)

    def _story(self, lane: LaneId) -> str:
        rank, index = lane
        _, command = self.lanes[lane].commands[self.lanes[lane].next]
        if isinstance(command, Collective):
            missing = sorted(set(command.ranks) - set(self._arrived.get((command.instance, command.ranks), {})))
            fact = f"the ranks {missing} in {command.kind} {command.instance} ({command.label})"
            return f"rank {rank}, lane {index}, for {fact}"
        event = command.event if isinstance(command, Await) else None
        return f"rank {rank}, lane {index}, for event {event}"


def _member_count(command: Collective) -> int:
    """The number of ranks that issue a command of the instance: a send and its receive are one instance."""
    return 2 if command.kind in MESSAGES else len(command.ranks)
