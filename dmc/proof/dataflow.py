"""V11: each launch of a job reads exactly the values of form placed, and every slot holds its own at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import product
from operator import mul

from dmc.errors import ProofError
from dmc.mesh import Mesh
from dmc.program import Collective, Job, Launch, Move, Program, Range, Work, accesses
from dmc.program.classes import Class, moved
from dmc.program.collectives import MESSAGES, members_of
from dmc.program.dataflow import Dataflow, Moving
from dmc.program.interval_map import IntervalMap
from dmc.program.program import Space
from dmc.proof.any_rank import ANY, AnyRank, Family, Unknown
from dmc.proof.expected import Expected, expected_of
from dmc.proof.meaning import alike, delivered
from dmc.proof.meshes import mesh_of
from dmc.proof.story import told, where

# A value, and the byte of the arena at which it begins, or would begin.
_Content = tuple[int, int]
# A rank's part in a movement, with the value it sends; it continues with the value it receives.
_Walk = Generator[tuple[Collective, int], int, None]
_HINT = "a pass of stage planned, or an edit of the plan, mistook one value for another"


def check_dataflow(job: Job, dataflow: Dataflow) -> None:
    """Raises ProofError where a step does not compute what form placed prescribes, with the first wrong place.

    The values of form placed and of form scheduled are compared first. Then every program is walked in the order of
    issue, which conflicting accesses keep (V6), with the value that each byte holds: a launch must have the operands of
    its kernel of form scheduled. Needs V1 to V5.

    Of a class, values are those of any of its ranks (`dmc.proof.any_rank`), and one walk is all walks: linear in the
    commands of the classes, times a logarithm. Where that does not show it, each rank is walked, which shows it or says
    what is wrong.
    """
    if not holds_for_any_rank(job, dataflow):
        check_each_rank(job, dataflow)


def check_each_rank(job: Job, dataflow: Dataflow) -> None:
    """Likewise, with values of each rank: linear in the commands of all ranks."""
    mesh = mesh_of(job)
    expected = expected_of(dataflow, mesh, stages=job.stages)
    ranks = {each.rank: _Rank(each, expected, alike(mesh, job.stages, each.rank)) for each in job.programs}

    def received(command: Collective, values: Sequence[int]) -> Sequence[int]:
        return delivered(expected.values, command.kind, values, _how(command))

    _play({number: rank.walk() for number, rank in ranks.items()}, members_of, received)
    for rank in ranks.values():
        rank.check_end()


def holds_for_any_rank(job: Job, dataflow: Dataflow) -> bool:
    """Whether it is shown for all ranks at once; where it is not, nothing is said."""
    mesh = mesh_of(job)
    within = {axis: size for axis, size in mesh.items() if axis not in job.stages}
    if not within or any(channel.groups for channel in job.channels):
        return False
    family = Family(Mesh(links=None, **within))
    axes = {each.name: each.axes for each in job.channels}

    def members(rank: int, command: Collective) -> Sequence[int]:
        return members_of(rank, command) if command.kind in MESSAGES else (rank,)

    def received(command: Collective, values: Sequence[int]) -> Sequence[int]:
        """What any rank of a class receives follows from what it sends, since all of them send alike."""
        return [family.moved(command.kind, axes[command.channel], value, _how(command)) for value in values]

    try:
        for each in job.classes:
            _check_class(mesh, each, family, axes, job.stages)
        expected = expected_of(dataflow, mesh, AnyRank, family, job.stages)
        if {*expected.calls} != {each.ranks[0] for each in job.classes}:
            return False
        ranks = {each.ranks[0]: _Rank(each.program, expected, ANY, family) for each in job.classes}
        _play({number: rank.walk() for number, rank in ranks.items()}, members, received)
        for rank in ranks.values():
            rank.check_end()
    except (ProofError, Unknown):
        return False
    return True


def _check_class(
    mesh: Mesh, own: Class, family: Family, axes: Mapping[str, Sequence[str]], stages: Sequence[str]
) -> None:
    """Raises Unknown where a class is not all ranks of a stage, or its messages are not between ranks that differ in
    their stage alone."""
    if {*own.ranks} != {*mesh.group(own.ranks[0], family.mesh.axes)}:
        raise Unknown
    messages = (each for each in own.program.commands if isinstance(each, Collective) and each.kind in MESSAGES)
    if not all({*axes[each.channel]} <= {*stages} for each in messages):
        raise Unknown


def _play(
    walks: Mapping[int, _Walk],
    members: Callable[[int, Collective], Sequence[int]],
    received: Callable[[Collective, Sequence[int]], Sequence[int]],
) -> None:
    """Walks programs, each as far as possible without the others.

    members: of a movement, those among the walks. received: what they receive in one that is no message, given what
    they send.
    """
    arrived: defaultdict[object, dict[int, int]] = defaultdict(dict)
    ready: list[tuple[int, int | None]] = [(rank, None) for rank in walks]
    while ready:
        rank, given = ready.pop()
        try:
            command, value = next(walks[rank]) if given is None else walks[rank].send(given)
        except StopIteration:
            continue
        ranks = members(rank, command)
        values = arrived[command.instance, command.channel, ranks]
        values[rank] = value
        if len(values) == len(ranks):
            sent = [values[each] for each in ranks]
            # The sender of a message is the first of its two ranks.
            ready += zip(ranks, sent[:1] * 2 if command.kind in MESSAGES else received(command, sent), strict=True)


def _how(command: Collective) -> Moving:
    size = 0 if command.source is None else command.source.length
    reduction = (command.reduction, command.accumulate, command.dtype) if command.reduction is not None else ()
    return Moving(size, tuple(map(str, reduction)), command.peer or 0, command.pairs)


class _Rank:
    """The contents of one rank's bytes, up to the command it has reached; or, as a family, of any rank's."""

    def __init__(self, program: Program, expected: Expected, first: int, family: Family | None = None) -> None:
        """first: the first rank that has the same arguments."""
        self.program, self.expected, self.values, self.family = program, expected, expected.values, family
        nothing = (self.values.unwritten, 0)
        self.memory: defaultdict[Space, IntervalMap[_Content]] = defaultdict(lambda: IntervalMap(nothing))
        self.launches = 0
        for slot in program.slots:
            if slot.role != "output":
                how, along = ("argument", slot.name, first), () if family is None else family.mesh.axes
                self._write(slot.range, self.values.made(how, slot.range.length, along=along))

    def walk(self) -> _Walk:
        """Goes through the commands; stops at each movement with other ranks until they have reached it."""
        for index, command in enumerate(self.program.commands):
            match command:
                case Launch():
                    self._launch(index, command)
                case Move():
                    self._write(command.target, *self._reads(command))
                case Collective():
                    sent = self._reads(command)
                    received = yield command, (sent[0] if sent else self.values.unwritten)
                    if command.target is not None:
                        self._write(command.target, received)
                case _:
                    pass

    def check_end(self) -> None:
        """Checks that all kernels were launched, and that the host finds the values of form placed."""
        rank, wanted = self.program.rank, self.expected.calls[self.program.rank]
        if self.launches < len(wanted):
            kernel = wanted[self.launches]
            fact = f"ends after {self.launches} launches; launch of {kernel.told} is missing"
            raise ProofError("V11", f"rank {rank}", fact, _HINT)
        for is_output, ends in ((False, self.expected.state[rank]), (True, self.expected.outputs[rank])):
            slots = {slot.name: slot.range for slot in self.program.slots if (slot.role == "output") == is_output}
            for name, value in ends.items():
                found = None if name not in slots else self._read(slots[name])
                if found != value:
                    holds = "does not exist" if found is None else f"holds {self.expected.told(found)}"
                    fact = f"{holds} at the end, not {self.expected.told(value)}"
                    raise ProofError("V11", f"rank {rank}, slot {name}", fact, _HINT)

    def _launch(self, index: int, launch: Launch) -> None:
        wanted = self.expected.calls[self.program.rank]
        place, number = where(self.program, index), self.launches
        if number >= len(wanted) or not wanted[number].is_launched(launch):
            instead = f"launch of {wanted[number].told}" if number < len(wanted) else "the end of the step"
            raise ProofError("V11", place, f"is where form scheduled has {instead}", _HINT)
        taken = self._reads(launch)
        for i, (found, value) in enumerate(zip(taken, wanted[number].operands, strict=True)):
            # What is between the members of a bucket, nobody has written there.
            if not self.values.is_written_as(found, value, launch.reads[i].length):
                fact = f"reads {self.expected.told(found)} as operand {i}, at {told(launch.reads[i])}, "
                raise ProofError("V11", place, f"{fact}not {self.expected.told(value)}", _HINT)
        if launch.scratch is not None:
            self._write(launch.scratch, self.values.unwritten)
        for range_, result in zip(launch.writes, wanted[number].results, strict=True):
            self._write(range_, result)
        self.launches += 1

    def _reads(self, command: Work) -> tuple[int, ...]:
        slices = {each.read: each.strides for each in command.slices}
        return tuple(self._slice(each, slices.get(i, {})) for i, each in enumerate(accesses(command)[0]))

    def _slice(self, range_: Range, strides: Mapping[str, int]) -> int:
        """What each rank reads at its own place."""
        if self.family is None or not strides:
            return self._read(range_)
        if not {*strides} <= {*self.family.mesh.axes}:
            raise Unknown
        indices = product(*(range(self.family.mesh.axis_size(axis)) for axis in strides))
        distances = [sum(map(mul, place, strides.values())) for place in indices]
        members = [self._read(moved(range_, each)) for each in distances]
        return self.family.chosen(tuple(strides), members, range_.length)

    def _read(self, range_: Range) -> int:
        pieces = self.memory[range_.space].pieces(range_)
        return self.values.row((value, first - base, end - first) for first, end, (value, base) in pieces)

    def _write(self, range_: Range, value: int) -> None:
        self.memory[range_.space].set(range_, [(value, range_.offset)])
