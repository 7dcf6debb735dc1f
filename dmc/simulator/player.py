"""The discrete events of a step: lanes that run their commands in order, and a heap of end times."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from dmc.errors import DmcError
from dmc.machine import Machine
from dmc.program import Await, Collective, Command, Job, Launch, Move, Record
from dmc.program.collectives import members_of
from dmc.simulator.durations import Durations
from dmc.simulator.population import Population
from dmc.simulator.rates import Rates, Task
from dmc.simulator.simulation import Span


@dataclass(slots=True, eq=False)
class _Lane:
    """The progress of a rank's lane through its commands. time, cause: when and by which span it was last released."""

    rank: int
    number: int
    commands: list[tuple[int, Command]]
    next: int = 0
    time: float = 0.0
    cause: int | None = None


@dataclass(slots=True, eq=False)
class _Event:
    """An event of a rank: when it was signalled, by the end of which span, or the lanes waiting for it."""

    time: float | None = None
    cause: int | None = None
    waiting: list[_Lane] = field(default_factory=list)


class Player:
    """Simulates all lanes of a population to their end."""

    def __init__(self, job: Job, machine: Machine, population: Population) -> None:
        self._population = population
        self._durations = Durations(machine, job)
        self._rates = Rates(machine, population.copies)
        self._lanes = [lane for rank in population.programs for lane in _lanes(population, rank)]
        self._ready = deque(self._lanes)
        self._events: dict[tuple[int, int], _Event] = {}
        self._arrived: dict[tuple[int, tuple[int, ...]], list[_Lane]] = {}
        self._running: dict[Task, list[_Lane]] = {}
        self._ends: list[tuple[float, int, int, Task]] = []
        self._pushed = 0
        # Started spans; the end of running ones is not known yet.
        self._spans: list[Span | None] = []
        self._begun: dict[int, tuple[float, int | None]] = {}

    def play(self) -> tuple[Span, ...]:
        """All spans, in the order in which they began. Raises DmcError if lanes wait for each other forever."""
        while True:
            while self._ready:
                self._advance(self._ready.popleft())
            task = self._next_end()
            if task is None:
                break
            self._end(task)
        self._check_done()
        return tuple(span for span in self._spans if span is not None)

    def _advance(self, lane: _Lane) -> None:
        """Advances to the next command that takes time, or to an event not signalled yet."""
        while lane.next < len(lane.commands):
            _, command = lane.commands[lane.next]
            match command:
                case Record():
                    self._record(lane, command)
                case Await():
                    if not self._passes(lane, command):
                        return None
                case Collective():
                    return self._arrive(lane, command)
                case Launch():
                    return self._begin([lane], self._rates.kernel(self._durations.launch(command), lane.rank))
                case Move():
                    return self._begin([lane], Task(self._durations.move(command), (lane.rank,)))
            lane.next += 1
        return None

    def _record(self, lane: _Lane, command: Record) -> None:
        event = self._events.setdefault((lane.rank, command.event), _Event())
        event.time, event.cause = lane.time, lane.cause
        self._ready.extend(event.waiting)
        event.waiting.clear()

    def _passes(self, lane: _Lane, command: Await) -> bool:
        event = self._events.setdefault((lane.rank, command.event), _Event())
        if event.time is None:
            event.waiting.append(lane)
            return False
        if event.time > lane.time:
            lane.time, lane.cause = event.time, event.cause
        return True

    def _arrive(self, lane: _Lane, command: Collective) -> None:
        """The last member to arrive begins the collective."""
        group = self._population.group(members_of(self._population.programs[lane.rank].rank, command))
        # Groups that do the same in one program share an instance: one movement also has the same members.
        key = (command.instance, group.played)
        arrived = self._arrived.setdefault(key, [])
        arrived.append(lane)
        if len(arrived) < len(group.played):
            return
        del self._arrived[key]
        ns = self._durations.collective(command, group.members)
        self._begin(arrived, self._rates.collective(command, ns, group))

    def _begin(self, lanes: list[_Lane], task: Task) -> None:
        last = max(lanes, key=lambda lane: lane.time)
        now, cause = last.time, last.cause
        task.spans = tuple(range(len(self._spans), len(self._spans) + len(lanes)))
        task.since = now
        self._spans.extend([None] * len(lanes))
        self._begun.update(dict.fromkeys(task.spans, (now, cause)))
        self._running[task] = lanes
        self._push(task, task.settle(now, 1.0))
        self._adjust(now, self._rates.begin(task))

    def _end(self, task: Task) -> None:
        now = self._ends[0][0]
        heapq.heappop(self._ends)
        for lane, index in zip(self._running.pop(task), task.spans, strict=True):
            start, cause = self._begun.pop(index)
            command = lane.commands[lane.next][0]
            self._spans[index] = Span(index, lane.rank, lane.number, command, lane.time, start, now, cause)
            lane.time, lane.cause = now, index
            lane.next += 1
            self._ready.append(lane)
        self._adjust(now, self._rates.end(task))

    def _adjust(self, now: float, tasks: list[Task]) -> None:
        for task in tasks:
            rate = self._rates.rate(task)
            if rate != task.rate:
                self._push(task, task.settle(now, rate))

    def _push(self, task: Task, end: float) -> None:
        # The counter breaks ties: of tasks that end at the same time, the one settled first comes first.
        self._pushed += 1
        heapq.heappush(self._ends, (end, self._pushed, task.version, task))

    def _next_end(self) -> Task | None:
        """The task that ends next, which stays on the heap; entries from before its rate changed are dropped."""
        while self._ends:
            _, _, version, task = self._ends[0]
            if version == task.version and task in self._running:
                return task
            heapq.heappop(self._ends)
        return None

    def _check_done(self) -> None:
        stuck = [lane for lane in self._lanes if lane.next < len(lane.commands)]
        if stuck:
            hint = "run the verifier: it names the cycle"
            raise DmcError("step", f"never ends: {'; '.join(map(self._stuck, stuck[:4]))}", hint)

    def _stuck(self, lane: _Lane) -> str:
        number, command = lane.commands[lane.next]
        what = f"event {command.event}" if isinstance(command, Await) else "the other members of a collective"
        name = self._population.programs[lane.rank].lanes[lane.number].name
        return f"rank {lane.rank}, lane {name}, command {number} waits for {what}"


def _lanes(population: Population, rank: int) -> list[_Lane]:
    program = population.programs[rank]
    lanes = [_Lane(rank, number, []) for number in range(len(program.lanes))]
    for number, command in enumerate(program.commands):
        lanes[command.lane].commands.append((number, command))
    return lanes
