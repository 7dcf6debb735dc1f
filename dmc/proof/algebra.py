"""V3: names exist, sizes match, and ranges are inside their arenas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import pairwise
from math import prod

from dmc.errors import ProofError
from dmc.program import Collective, Job, Launch, Move, Operand, Program, Range, Slot, accesses
from dmc.program.sizes import tensor_bytes
from dmc.proof.collective_sizes import Communicators, check_channels, check_collective, communicators
from dmc.proof.story import lane_name, told, where

STATE = ("parameter", "frozen", "buffer", "optimizer", "counter", "seed")


def check_algebra(job: Job) -> None:
    """Raises ProofError for the first lane, slot or command that contradicts the job's declarations."""
    if (ranks := prod(job.mesh.values())) != len(job.programs):
        axes = ", ".join(f"{axis}={size}" for axis, size in job.mesh.items())
        fact = f"the mesh {axes} has {ranks} ranks, but there are programs for {len(job.programs)}"
        raise ProofError("V3", None, fact, "give each rank of the mesh one program")
    check_channels(job)
    for rank, program in enumerate(job.programs):
        if program.rank != rank:
            raise ProofError("V3", f"program {rank}", f"is of rank {program.rank}; programs must be in rank order")
        _check_lanes(job, program)
        _check_slots(program)
        known = communicators(job, rank)
        for index in range(len(program.commands)):
            _check_command(job, known, program, index)


def _check_lanes(job: Job, program: Program) -> None:
    declared = {channel.name for channel in job.channels}
    for lane in program.lanes:
        place = f"rank {program.rank}, lane {lane.name}"
        if (lane.queue == "comm") != (lane.channel is not None):
            raise ProofError("V3", place, f"has queue {lane.queue} and channel {lane.channel}")
        if lane.channel is not None and lane.channel not in declared:
            raise ProofError("V3", place, f"its channel {lane.channel} is not declared")
    _check_unique(f"rank {program.rank}", "lane", (lane.name for lane in program.lanes))
    _check_unique(f"rank {program.rank}", "channel", (lane.channel for lane in program.lanes if lane.channel))


def _check_slots(program: Program) -> None:
    _check_unique(f"rank {program.rank}", "input", (slot.name for slot in program.slots if slot.role != "output"))
    _check_unique(f"rank {program.rank}", "output", (slot.name for slot in program.slots if slot.role == "output"))
    for slot in program.slots:
        place = f"rank {program.rank}, slot {slot.name}"
        _check_inside(program, place, slot.range)
        if slot.range.length != tensor_bytes(slot.dtype, slot.shape):
            fact = f"has {slot.range.length} bytes for {slot.shape} of {slot.dtype}"
            raise ProofError("V3", place, fact)
    # Inputs from the host are in place before the first command, outputs after the last.
    _check_apart(program, "before the step", [slot for slot in program.slots if slot.role != "output"])
    _check_apart(program, "after the step", [slot for slot in program.slots if slot.role in (*STATE, "output")])


def _check_command(job: Job, known: Communicators, program: Program, index: int) -> None:
    command = program.commands[index]
    place = where(program, index)
    if not 0 <= command.lane < len(program.lanes):
        raise ProofError("V3", place, f"its lane does not exist; there are {len(program.lanes)}")
    reads, writes = accesses(command)
    for touched in (*reads, *writes):
        _check_inside(program, place, touched)
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
    for written in launch.writes:
        if any(written.overlaps(read) and written != read for read in launch.reads):
            fact = f"writes {told(written)}, which overlaps an operand without being identical to it"
            raise ProofError("V3", place, fact, "in place means exactly the same bytes")
    _check_disjoint(place, "results and scratch", accesses(launch)[1])
    scratch = launch.scratch
    if scratch is not None and any(scratch.overlaps(read) for read in launch.reads):
        raise ProofError("V3", place, f"its scratch {told(scratch)} overlaps an operand")


def _check_operands(place: str, name: str, ranges: tuple[Range, ...], operands: tuple[Operand, ...]) -> None:
    if len(ranges) != len(operands):
        raise ProofError("V3", place, f"{name} {len(ranges)} ranges; its kernel has {len(operands)}")
    for i, (given, operand) in enumerate(zip(ranges, operands, strict=True)):
        wanted = tensor_bytes(operand.dtype, operand.shape)
        if given.length != wanted:
            raise ProofError("V3", place, f"{name} {told(given)} as number {i}, which has {wanted} bytes in its kernel")


def _check_move(program: Program, index: int, move: Move) -> None:
    place = where(program, index)
    if move.source.length != move.target.length:
        raise ProofError("V3", place, f"copies {move.source.length} bytes to {move.target.length}")
    if move.source.overlaps(move.target):
        raise ProofError("V3", place, f"copies {told(move.source)} onto {told(move.target)}, which overlaps it")
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


def _check_inside(program: Program, place: str, touched: Range) -> None:
    room = program.arenas.get(touched.space)
    if room is None:
        raise ProofError("V3", place, f"uses {told(touched)}, but the rank has no arena there")
    if touched.offset < 0 or touched.length < 1 or touched.end > room:
        raise ProofError("V3", place, f"uses {told(touched)}, outside the arena of {room} bytes")


def _check_apart(program: Program, when: str, slots: list[Slot]) -> None:
    ordered = sorted(slots, key=lambda slot: slot.range)
    for first, second in pairwise(ordered):
        if first.range.overlaps(second.range):
            fact = f"shares bytes with slot {second.name}, but both must hold their own value {when}"
            raise ProofError("V3", f"rank {program.rank}, slot {first.name}", fact)


def _check_disjoint(place: str, name: str, ranges: Iterable[Range]) -> None:
    ordered = sorted(ranges)
    for first, second in pairwise(ordered):
        if first.overlaps(second):
            raise ProofError("V3", place, f"its {name} {told(first)} and {told(second)} overlap")


def _check_unique(place: str, what: str, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ProofError("V3", place, f"declares {what} '{name}' {count} times")
