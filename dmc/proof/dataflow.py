"""V11: each launch of a job reads exactly the values of form placed, and every slot holds its own at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence

from dmc.errors import ProofError
from dmc.program import Collective, Job, Launch, Move, Program, Range
from dmc.program.collectives import MESSAGES
from dmc.program.dataflow import Dataflow, Moving
from dmc.program.interval_map import IntervalMap
from dmc.program.program import Space
from dmc.proof.expected import Expected, expected_of
from dmc.proof.meaning import delivered
from dmc.proof.meshes import mesh_of
from dmc.proof.story import told, where
from dmc.proof.values import Values

# A value, and the byte of the arena at which it begins, or would begin.
_Content = tuple[int, int]
# A rank's part in a movement, with the value it sends; it continues with the value it receives.
_Walk = Generator[tuple[Collective, int], int, None]
_HINT = "a pass of stage planned, or an edit of the plan, mistook one value for another"


def check_dataflow(job: Job, dataflow: Dataflow) -> None:
    """Raises ProofError where a step does not compute what form placed prescribes, with the first wrong place.

    The values of form placed and of form scheduled are compared first. Then every program is walked in the order of
    issue, which conflicting accesses keep (V6), with the value that each byte holds: a launch must have the operands of
    its kernel of form scheduled. Linear in the commands of all ranks, times a logarithm. Needs V1 to V5.
    """
    expected = expected_of(dataflow, mesh_of(job))
    ranks = [_Rank(program, expected) for program in job.programs]
    _play([rank.walk() for rank in ranks], expected.values)
    for rank in ranks:
        rank.check_end()


def _play(walks: Sequence[_Walk], values: Values) -> None:
    """Walks all programs, each as far as possible without the others."""
    arrived: defaultdict[object, dict[int, int]] = defaultdict(dict)
    ready: list[tuple[int, int | None]] = [(rank, None) for rank in range(len(walks))]
    while ready:
        rank, given = ready.pop()
        try:
            command, value = next(walks[rank]) if given is None else walks[rank].send(given)
        except StopIteration:
            continue
        members = arrived[command.instance, command.channel, command.ranks]
        members[rank] = value
        if len(members) == len(command.ranks):
            given_by = [members[each] for each in command.ranks]
            ready += zip(command.ranks, delivered(values, command.kind, given_by, _how(command)), strict=True)


def _how(command: Collective) -> Moving:
    size = 0 if command.source is None else command.source.length
    reduction = (command.reduction, command.accumulate, command.dtype) if command.reduction is not None else ()
    return Moving(size, tuple(map(str, reduction)), command.peer or 0, command.pairs)


class _Rank:
    """The contents of one rank's bytes, up to the command it has reached."""

    def __init__(self, program: Program, expected: Expected) -> None:
        self.program, self.expected, self.values = program, expected, expected.values
        nothing = (self.values.unwritten, 0)
        self.memory: defaultdict[Space, IntervalMap[_Content]] = defaultdict(lambda: IntervalMap(nothing))
        self.launches = 0
        for slot in program.slots:
            if slot.role != "output":
                self._write(slot.range, self.values.made(("argument", slot.name, program.rank), slot.range.length))

    def walk(self) -> _Walk:
        """Goes through the commands; stops at each movement with other ranks until they have reached it."""
        for index, command in enumerate(self.program.commands):
            match command:
                case Launch():
                    self._launch(index, command)
                case Move():
                    self._write(command.target, self._read(command.source))
                case Collective():
                    if command.kind in MESSAGES or command.source is None or command.target is None:
                        fact = "is a message between two ranks, but form placed has none"
                        raise ProofError("V11", where(self.program, index), fact, "use a collective")
                    self._write(command.target, (yield command, self._read(command.source)))
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
        if number >= len(wanted) or wanted[number].call.function != launch.kernel:
            instead = f"launch of {wanted[number].told}" if number < len(wanted) else "the end of the step"
            raise ProofError("V11", place, f"is where form scheduled has {instead}", _HINT)
        taken = tuple(map(self._read, launch.reads))
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

    def _read(self, range_: Range) -> int:
        pieces = self.memory[range_.space].pieces(range_)
        return self.values.row((value, first - base, end - first) for first, end, (value, base) in pieces)

    def _write(self, range_: Range, value: int) -> None:
        self.memory[range_.space].set(range_, [(value, range_.offset)])
