"""V10 for slices: where ranks read at different offsets, their mesh coordinates determine them."""

from __future__ import annotations

from collections.abc import Sequence

from dmc.errors import ProofError
from dmc.mesh import Mesh
from dmc.program import Command, Job, Range, accesses
from dmc.proof.meshes import mesh_of
from dmc.proof.story import told, where


def check_slices(job: Job) -> None:
    """Raises ProofError for a read whose offsets on the ranks are not those of one slicing of a value.

    A rank's piece of a value begins at `base + i·a + j·b + …`, where i, j, … are the rank's coordinates on the mesh,
    and the pieces of neighbours along an axis are the same or apart. Needs the ranks to have one skeleton.
    """
    mesh = mesh_of(job)
    coordinates = [tuple(mesh.coordinates(rank).values()) for rank in mesh.ranks]
    units = [next((r for r, at in enumerate(coordinates) if at == unit), None) for unit in _units(mesh)]
    for index, commands in enumerate(zip(*(program.commands for program in job.programs), strict=True)):
        if all(command == commands[0] for command in commands):
            continue
        for reads in _reads_by_place(commands):
            if any(read != reads[0] for read in reads) and (odd := _odd(reads, coordinates, units)) is not None:
                fact = f"reads {told(reads[odd])}, rank 0 {told(reads[0])}; no slicing over {job.mesh} explains both"
                raise ProofError("V10", where(job.programs[odd], index), fact)


def _units(mesh: Mesh) -> list[tuple[int, ...]]:
    return [tuple(int(other == axis) for other in mesh.axes) for axis in mesh.axes]


def _reads_by_place(commands: Sequence[Command]) -> list[tuple[Range, ...]]:
    """For each operand, the ranges the ranks read; none for messages, which some ranks send and others receive."""
    reads = [accesses(command)[0] for command in commands]
    return list(zip(*reads, strict=True)) if len({len(each) for each in reads}) == 1 else []


def _odd(reads: Sequence[Range], coordinates: Sequence[tuple[int, ...]], units: Sequence[int | None]) -> int | None:
    """The first rank whose offset is inconsistent with those of rank 0 and of its neighbours along each axis."""
    base, length = reads[0].offset, reads[0].length
    strides = [0 if rank is None else reads[rank].offset - base for rank in units]
    for rank, stride in zip(units, strides, strict=True):
        if stride < 0 or 0 < stride < length:
            return rank
    for rank, (read, at) in enumerate(zip(reads, coordinates, strict=True)):
        if read.offset != base + sum(i * stride for i, stride in zip(at, strides, strict=True)):
            return rank
    return None
