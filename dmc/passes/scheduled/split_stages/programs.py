"""What each rank of a pipeline runs, in order: operations for micro-batches, and messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dmc._mlir import ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.analysis.times import Times
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.passes.scheduled.split_stages.assignment import Assignment
from dmc.passes.scheduled.split_stages.flow import OUTSIDE, Key, is_tensor, size_of
from dmc.passes.scheduled.split_stages.slices import of_inputs
from dmc.schedules import Table
from dmc.step_function import STATE_ROLES, Port

# A number that many ranks need is computed by each where that takes one message at most, instead of being sent.
_FEW = 1
_NUMBER = 8  # bytes


@dataclass(frozen=True)
class Run:
    """An operation for a micro-batch. action: to which it belongs, `2F0`, if to one. ns: how long it takes."""

    op: ir.Operation
    micro: int
    action: str = field(default="", compare=False)
    ns: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Message:
    """A value that a rank of the pipeline sends to another."""

    key: Key
    source: int
    target: int


@dataclass(frozen=True)
class Send:
    """One end of a message."""

    message: Message


@dataclass(frozen=True)
class Receive:
    """The other end of a message."""

    message: Message


Item: TypeAlias = Run | Send | Receive


@dataclass
class RankProgram:
    """items: in order. arguments: those of the step that the rank has. results: the numbers of the step's results that
    it gives.
    """

    rank: int
    items: list[Item] = field(default_factory=list[Item])
    arguments: set[ir.Value] = field(default_factory=set[ir.Value])
    results: list[int] = field(default_factory=list[int])


def programs_of(
    assignment: Assignment,
    table: Table,
    kept: Sequence[Sequence[ir.Value]],
    results: Sequence[Port],
    state: Mapping[int, ir.Value],
    times: Times,
) -> list[RankProgram]:
    """One for each rank. kept: the arguments that it is decided that a rank has. state: of the number of a result that
    is new state, the argument that it replaces.

    Raises DmcError where an operation needs what its rank computes later.
    """
    lines = [_Line(assignment, table, rank, own, times) for rank, own in enumerate(kept)]
    for line in lines:
        line.fill(results, state)
    for line in lines:
        line.send([message for other in lines for message in other.received if message.source == line.rank])
    programs = [line.program for line in lines]
    # State that nothing reads or changes is kept, too.
    held = set[ir.Value]().union(*(program.arguments for program in programs))
    unread = (value for value, port in assignment.flow.ports.items() if port.role in STATE_ROLES and value not in held)
    programs[0].arguments.update(unread)
    return programs


def actions_of(programs: Sequence[RankProgram]) -> dict[Key, str]:
    """The action that computes each value; none for what belongs to no action."""
    runs = (item for program in programs for item in program.items if isinstance(item, Run) and item.action)
    return {(result, run.micro): run.action for run in runs for result in run.op.results}


def _base(assignment: Assignment, table: Table, rank: int, times: Times) -> Iterator[Run]:
    """The operations of a rank's stages, by its row of the schedule."""
    stages, flow = assignment.stages, assignment.flow
    own = {stage for stage, place in enumerate(table.ranks_of) if place == rank}
    yield from (Run(op, OUTSIDE) for op in flow.before if stages.get(op) in own)
    first = of_inputs(assignment)
    parts: defaultdict[tuple[int, str], list[ir.Operation]] = defaultdict(list)
    for op in flow.inside:
        if stages.get(op) in own:
            kinds = "F" if op not in assignment.backward else "BI" if op in first else "BW"
            for kind in kinds:
                parts[stages[op], kind].append(op)
    known = {op: times.ns(op) for ops in parts.values() for op in ops}
    for action in table.row(rank):
        ops = parts[action.stage, action.kind]
        yield from (Run(op, action.micro, str(action), known[op]) for op in ops)
    yield from (Run(op, OUTSIDE) for op in flow.after if stages.get(op) in own)


class _Line:
    """Makes a rank's program. received: the messages to the rank. kept: what another program of it has, too."""

    def __init__(self, assignment: Assignment, table: Table, rank: int, kept: Sequence[ir.Value], times: Times) -> None:
        self.assignment, self.flow, self.rank = assignment, assignment.flow, rank
        # Where another program has state in the same memory, this one has it there, too.
        self.program = RankProgram(rank, arguments={*kept})
        self.received: list[Message] = []
        self._ranks_of = table.ranks_of
        self._base = list(_base(assignment, table, rank, times))
        self._has: set[Key] = set()
        self._done: set[Run] = set()

    def fill(self, results: Sequence[Port], state: Mapping[int, ir.Value]) -> None:
        """All operations, with what each needs before it, and then the results."""
        for run in self._base:
            self._run(run)
        for value, owner in self.assignment.owners.items():
            if self._ranks_of[owner] == self.rank:
                self.program.arguments.add(value)
        # Outputs first: what they read the rank has, and then gives its new value.
        for port in sorted(results, key=lambda port: port.index in state):
            value = self.flow.terminator.operands[port.index]
            if self._gives(port, value, state):
                self._need(self.flow.key(value, OUTSIDE))
                self.program.results.append(port.index)
        self.program.results.sort()

    def _gives(self, port: Port, value: ir.Value, state: Mapping[int, ir.Value]) -> bool:
        """Whether a result is this rank's: new state of what it has, outputs where they arise, numbers everywhere."""
        if (argument := state.get(port.index)) is not None:
            return argument in self.program.arguments
        return type_bytes(port.type) <= _NUMBER or self._maker_rank(self.flow.key(value, OUTSIDE)) in (None, self.rank)

    def _run(self, run: Run) -> None:
        if run in self._done:
            return
        self._done.add(run)
        for key in self.flow.reads(run.op, run.micro):
            self._need(key)
        self.program.items.append(run)
        self._has.update((result, run.micro) for result in run.op.results)

    def _need(self, key: Key) -> None:
        """Makes a value the rank's: an argument, what it computes itself, or a message."""
        if key in self._has or self.flow.is_index(key[0]):
            return
        rank = self._maker_rank(key)
        if key[0] in self.flow.ports and (rank in (None, self.rank) or key[0] in self.program.arguments):
            self.program.arguments.add(key[0])
            self._has.add(key)
        elif rank is None or self._is_cheap(key) or not is_tensor(key[0]) or self._is_later(key, rank):
            self._run(Run(self.flow.makers[key[0]], key[1]))
        elif rank == self.rank:
            fact = "is needed before the rank of the pipeline that computes it does"
            raise DmcError(self.flow.makers[key[0]], fact, "cut the model elsewhere, or use another schedule")
        else:
            self.received.append(message := Message(key, rank, self.rank))
            self.program.items.append(Receive(message))
            self._has.add(key)

    def _is_later(self, key: Key, rank: int) -> bool:
        """Whether this rank computes a value behind the micro-batches, and may as well now."""
        return rank == self.rank and key[1] == OUTSIDE

    def _maker_rank(self, key: Key) -> int | None:
        """The rank that has a value first; None where each makes it for itself."""
        value = key[0]
        if value in self.assignment.free or (value in self.flow.ports and self.flow.is_shared(value)):
            return None
        stage = self.assignment.stage_of(value)
        return None if stage is None else self._ranks_of[stage]

    def _is_cheap(self, key: Key) -> bool:
        """Whether a number behind the micro-batches is computed here rather than received."""
        is_computed = key[1] == OUTSIDE and key[0] in self.flow.makers
        return is_computed and size_of(key[0]) <= _NUMBER and len(self._missing(key)) <= _FEW

    def _missing(self, key: Key) -> set[Key]:
        """What would have to be received to compute a number; two at most are named."""
        missing: set[Key] = set()
        pending, seen = [*self._operands(key)], set[Key]()
        while pending and len(missing) <= _FEW:
            each = pending.pop()
            if each in seen or each in self._has or self._maker_rank(each) is None:
                continue
            seen.add(each)
            is_number = each[1] == OUTSIDE and size_of(each[0]) <= _NUMBER
            if is_number and self.flow.is_behind(self.flow.makers.get(each[0])):
                pending += self._operands(each)
            else:
                missing.add(each)
        return missing

    def _operands(self, key: Key) -> list[Key]:
        maker = self.flow.makers.get(key[0])
        return [key] if maker is None else [self.flow.key(value, key[1]) for value in outer_reads(maker)]

    def send(self, messages: Sequence[Message]) -> None:
        """Puts the sends behind what makes their values."""
        places: dict[Key, int] = {}
        for place, item in enumerate(self.program.items):
            match item:
                case Run(op, micro):
                    places.update(((result, micro), place) for result in op.results)
                case Receive(message):
                    places[message.key] = place
                case Send():
                    pass
        behind: defaultdict[int, list[Item]] = defaultdict(list)
        for message in messages:
            behind[places.get(message.key, -1)].append(Send(message))
            if message.key[0] in self.flow.ports:
                self.program.arguments.add(message.key[0])
        self.program.items = [
            *behind[-1],
            *(each for i, item in enumerate(self.program.items) for each in (item, *behind[i])),
        ]
