"""V10: ranks of a class run one program, and only stages have classes of their own: no rank decides anything alone."""

from __future__ import annotations

from dmc.errors import ProofError
from dmc.program import Class, Job, Program, Record, accesses
from dmc.program.program import Await
from dmc.proof.meshes import mesh_of
from dmc.proof.story import lane_name, told, what, where


def check_invariance(job: Job) -> None:
    """Raises ProofError for ranks of one stage that are not of one class, and for reads that are no slices.

    What may differ in a class is what its program says: which slice of a value a rank reads, which variant of a kernel
    it launches, and who its peers are. Linear in the commands of all classes.
    """
    mesh = mesh_of(job)
    if missing := [axis for axis in job.stages if axis not in mesh.axes]:
        raise ProofError("V10", None, f"has stages along {missing[0]}, which is not an axis of the mesh {job.mesh}")
    if len({*job.stages}) < len(job.stages):
        raise ProofError("V10", None, f"has stages along {', '.join(job.stages)}: an axis twice")
    first_of: dict[tuple[int, ...], Class] = {}
    for own in job.classes:
        for rank in own.ranks:
            coordinates = mesh.coordinates(rank)
            stage = tuple(coordinates[axis] for axis in job.stages)
            if first_of.setdefault(stage, own) is not own:
                _tell(job, first_of[stage], rank)
        if len(job.stages) and len({tuple(mesh.coordinates(r)[a] for a in job.stages) for r in own.ranks}) > 1:
            raise ProofError("V10", f"ranks {list(own.ranks)}", "are one class, but of several stages")
    for own in job.classes:
        _check_slices(job, own.program)


def _tell(job: Job, first: Class, rank: int) -> None:
    """Raises ProofError with the first difference between a rank's program and that of another of its stage."""
    wanted, found, other = job.member(first, rank).program(first.program), job.program(rank), f"rank {first.ranks[0]}"
    for name in ("arenas", "lanes", "slots", "buffers"):
        if getattr(wanted, name) != getattr(found, name):
            fact = f"its {name} differ from {other}'s: {_difference(getattr(wanted, name), getattr(found, name))}"
            raise ProofError("V10", f"rank {rank}", fact)
    if len(found.commands) != len(wanted.commands):
        fact = f"has {len(found.commands)} commands, {other} has {len(wanted.commands)}"
        raise ProofError("V10", f"rank {rank}", fact)
    for index, (one, its) in enumerate(zip(wanted.commands, found.commands, strict=True)):
        if one != its:
            fact = f"is where {other} has {what(one)} on lane {lane_name(wanted, one.lane)}; they differ"
            raise ProofError("V10", where(found, index), fact, "decide for all ranks at once")
    raise ProofError("V10", f"rank {rank}", f"is in another class than {other}, but runs the same")


def _check_slices(job: Job, program: Program) -> None:
    """The pieces of neighbours along an axis are the same or apart."""
    for index, command in enumerate(program.commands):
        slices = () if isinstance(command, Record | Await) else command.slices
        for each, axis, stride in ((own, *step) for own in slices for step in own.strides.items()):
            read = accesses(command)[0][each.read]
            if stride < 0 or 0 < stride < read.length:
                fact = f"reads {told(read)}, and {stride} bytes further on for each step along {axis}"
                raise ProofError("V10", where(program, index), fact, "slices of one value do not overlap")


def _difference(one: object, other: object) -> str:
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return f"{one} and {other}"
    pairs = enumerate(zip(one, other, strict=False))
    found = next((f"number {i} is {a} there and {b} here" for i, (a, b) in pairs if a != b), "")
    return found or f"there are {len(one)} there and {len(other)} here"
