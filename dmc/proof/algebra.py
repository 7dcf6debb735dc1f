"""V3: names exist, sizes match, and ranges are inside their arenas."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import pairwise

import msgspec

from dmc.errors import ProofError
from dmc.program import Class, Collective, Command, Job, Launch, Move, Operand, Program, Range, accesses, covering
from dmc.program.collectives import MESSAGES
from dmc.proof.collective_sizes import Communicators, check_channels, check_collective, check_message, communicators
from dmc.proof.extents import bytes_of, check_inside, check_unique
from dmc.proof.meshes import mesh_of
from dmc.proof.slots import check_slots
from dmc.proof.story import lane_name, told, where


def check_algebra(job: Job) -> None:
    """Raises ProofError for the first lane, slot or command that contradicts the job's declarations."""
    mesh = mesh_of(job)
    if fact := next(job.misplaced(), ""):
        raise ProofError("V3", None, fact, "each rank of the mesh has one program")
    check_channels(job)
    _check_kernels(job)
    for own in job.classes:
        _check_lanes(job, own.program)
        check_slots(own.program)
        known = communicators(job, mesh, own.program.rank)
        for index in range(len(own.program.commands)):
            _check_command(job, known, own.program, index)
    if fact := next(job.faults(), ""):
        raise ProofError("V3", None, fact, "ranks of a class differ in what its program says only")
    for own in job.classes:
        _check_other_ranks(job, own)


def _check_other_ranks(job: Job, own: Class) -> None:
    """What the first rank of a class touches was checked; slices, variants and members differ on others."""
    wide = covering(own, job.layout)
    for index, (narrow, command) in enumerate(zip(own.program.commands, wide.commands, strict=True)):
        place = where(own.program, index)
        if command is not narrow:
            for touched in accesses(command)[0]:
                check_inside(own.program, place, touched)
            _check_overlaps(place, command)
        if isinstance(narrow, Launch) and narrow.variants is not None:
            for name in narrow.variants.kernels:
                _check_launch(job, place, msgspec.structs.replace(narrow, kernel=name))
        if isinstance(narrow, Collective) and narrow.kind in MESSAGES:
            for rank in own.ranks:
                other = job.member(own, rank).command(narrow)
                assert isinstance(other, Collective), "a movement is one on each rank"
                check_message(rank, place, other)


def _check_kernels(job: Job) -> None:
    for name, kernel in job.kernels.items():
        place = f"kernel @{name}"
        if kernel.name != name:
            raise ProofError("V3", place, f"is named @{kernel.name}")
        if kernel.scratch < 0:
            raise ProofError("V3", place, f"requires {kernel.scratch} bytes of scratch")


def _check_lanes(job: Job, program: Program) -> None:
    declared = {channel.name for channel in job.channels}
    for lane in program.lanes:
        place = f"rank {program.rank}, lane {lane.name}"
        if (lane.queue == "comm") != (lane.channel is not None):
            raise ProofError("V3", place, f"has queue {lane.queue} and channel {lane.channel}")
        if lane.channel is not None and lane.channel not in declared:
            raise ProofError("V3", place, f"its channel {lane.channel} is not declared")
    check_unique(f"rank {program.rank}", "lane", (lane.name for lane in program.lanes))
    check_unique(f"rank {program.rank}", "channel", (lane.channel for lane in program.lanes if lane.channel))


def _check_command(job: Job, known: Communicators, program: Program, index: int) -> None:
    command = program.commands[index]
    place = where(program, index)
    if not 0 <= command.lane < len(program.lanes):
        raise ProofError("V3", place, f"its lane does not exist; there are {len(program.lanes)}")
    reads, writes = accesses(command)
    for touched in (*reads, *writes):
        check_inside(program, place, touched)
    _check_overlaps(place, command)
    if isinstance(command, Launch):
        _check_queue(program, index, ("compute",))
        _check_launch(job, place, command)
    elif isinstance(command, Move):
        _check_move(program, index, command)
    elif isinstance(command, Collective):
        _check_queue(program, index, ("comm",))
        check_collective(known, program, place, command)


def _check_launch(job: Job, place: str, launch: Launch) -> None:
    kernel = job.kernels.get(launch.kernel)
    if kernel is None:
        fact = f"its kernel @{launch.kernel} is not among the job's {len(job.kernels)}"
        near = get_close_matches(launch.kernel, job.kernels, 1)
        raise ProofError("V3", place, fact, f"did you mean @{near[0]}?" if near else "declare it as a function")
    _check_operands(place, "reads", launch.reads, kernel.reads)
    _check_operands(place, "writes", launch.writes, kernel.writes)
    has = 0 if launch.scratch is None else launch.scratch.length
    if has != kernel.scratch:
        raise ProofError("V3", place, f"has {has} bytes of scratch; its kernel requires {kernel.scratch}")


def _check_overlaps(place: str, command: Command) -> None:
    """Results are apart, and of operands only exactly the same bytes may be written, by what works in place."""
    reads, writes = accesses(command)
    scratch = command.scratch if isinstance(command, Launch) else None
    if scratch is not None and any(scratch.overlaps(read) for read in reads):
        raise ProofError("V3", place, f"its scratch {told(scratch)} overlaps an operand")
    is_in_place = isinstance(command, Launch) or (isinstance(command, Collective) and command.kind == "all_reduce")
    for written in writes:
        for read in (read for read in reads if written.overlaps(read)):
            if not is_in_place or written != read:
                fact = f"writes {told(written)} over its operand {told(read)}"
                raise ProofError("V3", place, fact, "a kernel and an all_reduce may write exactly the same bytes")
    _check_disjoint(place, "results and scratch", writes)


def _check_operands(place: str, name: str, ranges: tuple[Range, ...], operands: tuple[Operand, ...]) -> None:
    if len(ranges) != len(operands):
        raise ProofError("V3", place, f"{name} {len(ranges)} ranges; its kernel has {len(operands)}")
    for i, (given, operand) in enumerate(zip(ranges, operands, strict=True)):
        wanted = bytes_of(place, operand.dtype, operand.shape)
        if given.length != wanted:
            raise ProofError("V3", place, f"{name} {told(given)} as number {i}, which has {wanted} bytes in its kernel")


def _check_move(program: Program, index: int, move: Move) -> None:
    place = where(program, index)
    if move.source.length != move.target.length:
        raise ProofError("V3", place, f"copies {move.source.length} bytes to {move.target.length}")
    fitting = [
        queue for queue, space in (("copy_in", move.target.space), ("copy_out", move.source.space)) if space == "device"
    ]
    _check_queue(program, index, ("compute", *fitting))


def _check_queue(program: Program, index: int, queues: tuple[str, ...]) -> None:
    lane = program.commands[index].lane
    queue = program.lanes[lane].queue
    if queue not in queues:
        fact = f"cannot run on {lane_name(program, lane)} of queue {queue}; it belongs on {' or '.join(queues)}"
        raise ProofError("V3", where(program, index), fact)


def _check_disjoint(place: str, name: str, ranges: Iterable[Range]) -> None:
    ordered = sorted(ranges)
    for first, second in pairwise(ordered):
        if first.overlaps(second):
            raise ProofError("V3", place, f"its {name} {told(first)} and {told(second)} overlap")
