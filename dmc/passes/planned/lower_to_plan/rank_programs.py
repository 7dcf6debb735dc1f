"""Form scheduled, with addresses, as the program of all ranks, without events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import msgspec

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.commands.jobs import operand_of
from dmc.analysis.labels.storages import label_of_op
from dmc.analysis.memory.attributes import ARENAS, COPIED, stated_offset, stated_scratch_offset
from dmc.analysis.storage.pieces import piece_offset
from dmc.analysis.storage.spaces import argument_spaces
from dmc.analysis.storage.storages import member_offsets, value_bytes
from dmc.dialect.collectives import permute_sources_and_targets
from dmc.dialect.labels import action_of
from dmc.dialect.plan import type_bytes
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.program import (
    PINNED_HOST,
    Await,
    Collective,
    Command,
    Lane,
    Launch,
    Move,
    Program,
    Range,
    Record,
    Slice,
    Slot,
    Space,
    Variants,
)
from dmc.step_function import Port, arguments, mutated_state, outputs

COMPUTE = "compute"


def first_program(step: func.FuncOp, mesh: Mesh, rank: int = 0) -> tuple[Program, list[int]]:
    """The program of `rank`, the first, which says what differs on others, without events and buffers; and for each
    operation of @step its first command's number. Raises DmcError for a missing address, or operations that do not
    belong to form scheduled.
    """
    lowering = _Lowering(mesh, rank)
    *body, terminator = (view.operation for view in step.entry_block.operations)
    for port, space in zip(arguments(step), argument_spaces(step), strict=True):
        lowering.take(step, port, space)
    firsts: list[int] = []
    for op in body:
        firsts.append(len(lowering.commands))
        lowering.lower(op)
    firsts.append(len(lowering.commands))
    lowering.leave(step, terminator)
    arenas = {named.name: named.attr.value for named in ir.DictAttr(step.operation.attributes[ARENAS])}
    lanes, commands = _used(lowering)
    program = Program(rank, arenas, lanes, tuple(lowering.slots), commands)
    return program, firsts


@dataclass
class _Lowering:
    """Emits the commands of the first rank, in the order of @step.

    places: the address of each value. strides: by axis, of the values that are a rank's own slices. events: the command
    that signals each token.
    """

    mesh: Mesh
    rank: int
    places: dict[ir.Value, Range] = field(default_factory=dict)
    strides: dict[ir.Value, dict[str, int]] = field(default_factory=dict)
    tokens: dict[ir.Value, int] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=lambda: {COMPUTE: Lane(COMPUTE, "compute")})
    commands: list[Command] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)

    def take(self, step: func.FuncOp, port: Port, space: Space) -> None:
        """An argument is in its slot; an empty one has none."""
        if not type_bytes(port.type):
            return
        argument = step.arguments[port.index]
        where = Range(space, stated_offset(argument), type_bytes(port.type))
        self.places[argument] = where
        type_ = operand_of(port.type)
        self.slots.append(Slot(port.name, port.role, type_.dtype, type_.shape, where))

    def lower(self, op: ir.Operation) -> None:
        """Emits the commands of one operation of @step."""
        if op.name not in _RULES:
            raise DmcError(op, "not allowed in form 'scheduled'", "turn all computation into kernels (dm-form-kernels)")
        _RULES[op.name](self, op)

    def leave(self, step: func.FuncOp, terminator: ir.Operation) -> None:
        """Copies state that was not updated in place into its slot; outputs become slots."""
        overwritten: list[Range] = []
        for argument, result in mutated_state(step):
            if not type_bytes(argument.type):
                continue
            value = terminator.operands[result.index]
            source, slices = self.places[value], self.slices([value])
            slot = self.places[step.arguments[argument.index]]
            if source == slot and not slices:
                continue
            if any(source.overlaps(gone) for gone in overwritten):
                fact = f"the new value of '{argument.name}' is where other new state was just written"
                raise DmcError(terminator, fact, "states that swap places must be copied by a kernel first")
            overwritten.append(slot)
            self.commands.append(Move(self.lane(COMPUTE), source, slot, argument.name, slices))
        for port in outputs(step):
            where = self.places[terminator.operands[port.index]]
            if where.space != PINNED_HOST:
                fact = f"output '{port.name}' is in {where.space} memory, which the host does not read"
                raise DmcError(terminator, fact, "run dm-copy-ports")
            type_ = operand_of(port.type)
            self.slots.append(Slot(port.name, "output", type_.dtype, type_.shape, where))

    def lane(self, name: str, queue: str = COMPUTE, channel: str | None = None) -> int:
        """The lane of this name, declared on first use."""
        self.lanes.setdefault(name, Lane(name, queue, channel))  # pyright: ignore[reportArgumentType]
        return list(self.lanes).index(name)

    def place(self, op: ir.Operation, index: int, space: Space = "device") -> Range:
        """The address dm-plan-memory gave a result of `op`."""
        result = op.results[index]
        return Range(space, stated_offset(result), value_bytes(result))

    def slices(self, values: Sequence[ir.Value]) -> tuple[Slice, ...]:
        """Those among the values that a command reads."""
        strides = [(i, self.strides[value]) for i, value in enumerate(values) if value in self.strides]
        return tuple(Slice(i, each) for i, each in strides)

    def is_awaited(self, token: ir.Value) -> bool:
        """Whether anything is ordered after `token`."""
        return next(iter(token.uses), None) is not None


def _kernel(lowering: _Lowering, op: ir.Operation) -> None:
    view: Any = op.opview
    variants = None
    if view.variants is not None:
        variants = Variants(dm.group_axes(view.group), tuple(each.value for each in view.variants))
    writes = [lowering.place(op, index) for index in range(len(op.results))]
    lowering.places.update(zip(op.results, writes, strict=True))
    reads, slices = tuple(lowering.places[operand] for operand in op.operands), lowering.slices(op.operands)
    lane, label, action = lowering.lane(COMPUTE), label_of_op(op), action_of(op.location)
    # The body is the first of the variants.
    launch = Launch(lane, view.body.value, reads, tuple(writes), _scratch(view), label, slices, variants, action)
    lowering.commands.append(launch)


def _scratch(op: Any) -> Range | None:
    if op.scratch is None or not op.scratch.value:
        return None
    return Range("device", stated_scratch_offset(op.operation), op.scratch.value)


def _start(lowering: _Lowering, op: ir.Operation) -> None:
    view: Any = op.opview
    movement = dm.movement_of(view)
    for token in view.after:
        lane = _lane_of(lowering, movement, view)
        lowering.commands.append(Await(lane, lowering.tokens[token]))
    command = _movement(lowering, view, movement)
    lowering.commands.append(command)
    token = op.results[1]
    if lowering.is_awaited(token):
        lowering.tokens[token] = len(lowering.tokens)
        lowering.commands.append(Record(command.lane, lowering.tokens[token]))


def _movement(lowering: _Lowering, start: Any, movement: Any) -> Command:
    source = None if start.input is None else lowering.places[start.input]
    space: Space = movement.target.value if isinstance(movement, dm.CopyOp) else "device"
    target = lowering.place(start.operation, 0, space) if len(movement.operation.results) else None
    if target is not None:
        lowering.places[start.handle] = target
    lane = _lane_of(lowering, movement, start)
    label, slices = label_of_op(start.operation), lowering.slices([] if start.input is None else [start.input])
    if isinstance(movement, dm.CopyOp):
        assert source is not None, "a copy has an operand"
        assert target is not None, "a copy delivers"
        return Move(lane, source, target, label, slices)
    kept = movement.input.type if source is not None else movement.result.type
    given = isinstance(movement, dm.AllReduceOp | dm.ReduceScatterOp)
    return Collective(
        lane=lane,
        kind=movement.operation.name.removeprefix("dm."),  # pyright: ignore[reportArgumentType]
        channel=movement.channel.value,
        ranks=lowering.mesh.group(lowering.rank, dm.group_axes(movement.group)),
        instance=start.instance.value,
        dtype=str(kept.element_type),
        count=prod(kept.shape),
        source=source,
        target=target,
        reduction=movement.reduction.value if given else None,
        accumulate=str(movement.accumulate.value) if given else None,
        peer=_peer(movement),
        pairs=_pairs(movement),
        label=label,
        slices=slices,
        action=action_of(start.operation.location),
    )


def _lane_of(lowering: _Lowering, movement: Any, start: Any) -> int:
    if isinstance(movement, dm.CopyOp):
        return lowering.lane(start.queue.value, start.queue.value)
    if movement.channel is None or start.queue.value != "comm":
        raise DmcError(start.operation, f"its {movement.operation.name} has no channel", "run dm-assign-queues")
    return lowering.lane(movement.channel.value, "comm", movement.channel.value)


def _peer(movement: Any) -> int | None:
    match movement:
        case dm.BroadcastOp():
            return movement.root.value
        case dm.SendOp():
            return movement.target.value
        case dm.RecvOp():
            return movement.source.value
        case _:
            return None


def _pairs(movement: Any) -> tuple[tuple[int, int], ...]:
    if not isinstance(movement, dm.PermuteOp):
        return ()
    return tuple(zip(*permute_sources_and_targets(movement), strict=True))


def _wait(lowering: _Lowering, op: ir.Operation) -> None:
    if len(op.results):
        lowering.places[op.results[0]] = lowering.places[op.operands[0]]


def _pack(lowering: _Lowering, op: ir.Operation) -> None:
    bucket = lowering.place(op, 0)
    lowering.places[op.results[0]] = bucket
    copied = set(op.attributes[COPIED]) if COPIED in op.attributes else set()
    for index, (member, where) in enumerate(zip(op.operands, _members(op, bucket, op.operands), strict=True)):
        if index in copied:
            source, slices = lowering.places[member], lowering.slices([member])
            lowering.commands.append(Move(lowering.lane(COMPUTE), source, where, label_of_op(op), slices))
        elif lowering.places[member] != where or member in lowering.strides:
            fact = f"member {index} is at {lowering.places[member]}, not at {where} in its bucket"
            raise DmcError(op, fact, f"list it in {COPIED}, or run dm-plan-memory first")


def _unpack(lowering: _Lowering, op: ir.Operation) -> None:
    bucket = lowering.places[op.operands[0]]
    lowering.places.update(zip(op.results, _members(op, bucket, op.results), strict=True))


def _members(op: ir.Operation, bucket: Range, members: Sequence[ir.Value]) -> list[Range]:
    return [
        Range(bucket.space, bucket.offset + offset, type_bytes(member.type))
        for offset, member in zip(member_offsets(op), members, strict=True)
    ]


def _view(lowering: _Lowering, op: ir.Operation) -> None:
    whole, strides = lowering.places[op.operands[0]], dict(lowering.strides.get(op.operands[0], {}))
    if isinstance(op.opview, dm.AllSliceOp):
        step = piece_offset(op, 1) - piece_offset(op, 0)
        for axis in reversed(dm.group_axes(op.opview.group)):
            strides[axis] = strides.get(axis, 0) + step
            step *= lowering.mesh.axis_size(axis)
    offset = whole.offset + piece_offset(op, 0)
    lowering.places[op.results[0]] = Range(whole.space, offset, type_bytes(op.results[0].type))
    if strides:
        lowering.strides[op.results[0]] = strides


def _used(lowering: _Lowering) -> tuple[tuple[Lane, ...], tuple[Command, ...]]:
    """The lanes that have commands, and the commands with the lanes' new numbers."""
    used = sorted({command.lane for command in lowering.commands} | {0})
    lanes = list(lowering.lanes.values())
    renamed = {old: new for new, old in enumerate(used)}
    commands = [msgspec.structs.replace(command, lane=renamed[command.lane]) for command in lowering.commands]
    return tuple(lanes[old] for old in used), tuple(commands)


_RULES: dict[str, Callable[[_Lowering, ir.Operation], None]] = {
    dm.KernelOp.OPERATION_NAME: _kernel,
    dm.StartOp.OPERATION_NAME: _start,
    dm.WaitOp.OPERATION_NAME: _wait,
    dm.PackOp.OPERATION_NAME: _pack,
    dm.UnpackOp.OPERATION_NAME: _unpack,
    dm.AllSliceOp.OPERATION_NAME: _view,
    "tensor.expand_shape": _view,
    "tensor.collapse_shape": _view,
    "tensor.extract_slice": _view,
}
