"""Form planned, read as plain data: `dmc.program.Job`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.kernels.decompositions import decompositions
from dmc.dialect.placements import mesh_of
from dmc.dialect.plan import bounds
from dmc.errors import DmcError
from dmc.program import (
    Await,
    Buffer,
    Channel,
    Class,
    Collective,
    Command,
    Job,
    Kernel,
    Lane,
    Launch,
    Move,
    Operand,
    Program,
    Range,
    Record,
    Slice,
    Slot,
    Variants,
)
from dmc.step_function import functions, symbol

# On a kernel's function: what dominates its time, and the attributes of `dm.kernel` common to all launches.
KIND, FLOPS, BYTES, SCRATCH, IMPLEMENTATION = "dm.kind", "dm.flops", "dm.bytes", "dm.scratch", "dm.implementation"
# On the module: the axes along which ranks have programs of their own.
STAGES = "dm.stages"
# The mesh of a job without one.
ONE_RANK = {"rank": 1}

# By name: the lane's index, the lane, and the members of its channel.
_Lanes = Mapping[str, tuple[int, Lane, tuple[int, ...]]]


def job_of(module: ir.Module) -> Job:
    """The job that a module in form planned describes. Raises DmcError if it contains no program."""
    programs = [op for op in module.body.operations if isinstance(op, dm.ProgramOp)]
    if not programs:
        raise DmcError(module.operation, "contains no dm.program", "lower it to form planned first (dm-lower-to-plan)")
    meanings = decompositions(module)
    kernels = [op for op in functions(module) if symbol(op) not in meanings]
    attributes = module.operation.attributes
    without = Job(
        mesh=_mesh(module),
        channels=tuple(channel_of(op) for op in module.body.operations if isinstance(op, dm.ChannelOp)),
        kernels={symbol(op): kernel_of(op) for op in kernels},
        classes=(),
        stages=tuple(axis.value for axis in attributes[STAGES]) if STAGES in attributes else (),
    )
    classes = (Class(tuple(op.ranks), _program(op, without)) for op in sorted(programs, key=lambda op: op.ranks[0]))
    return msgspec.structs.replace(without, classes=tuple(classes))


def operand_of(type_: ir.RankedTensorType) -> Operand:
    """A tensor type as data."""
    return Operand(str(type_.element_type), tuple(type_.shape))


def kernel_of(function: func.FuncOp) -> Kernel:
    """The properties of the function that its launches need."""
    attributes = function.operation.attributes
    return Kernel(
        name=symbol(function),
        reads=tuple(map(operand_of, function.type.inputs)),
        writes=tuple(map(operand_of, function.type.results)),
        flops=_of(attributes, FLOPS, 0),
        traffic=_of(attributes, BYTES, 0),
        scratch=_of(attributes, SCRATCH, 0),
        implementation=_of(attributes, IMPLEMENTATION, "iree"),
        kind=_of(attributes, KIND, "other"),
    )


def _mesh(module: ir.Module) -> dict[str, int]:
    meshes = [op for op in module.body.operations if isinstance(op, dm.MeshOp)]
    return dict(mesh_of(meshes[0]).items()) if meshes else dict(ONE_RANK)


def channel_of(op: dm.ChannelOp) -> Channel:
    """A channel as data."""
    if op.group is not None:
        return Channel(op.sym_name.value, dm.group_axes(op.group))
    return Channel(op.sym_name.value, groups=tuple(tuple(ranks) for ranks in op.groups or ()))


def _program(op: dm.ProgramOp, job: Job) -> Program:
    """The program of the first rank of a class of the job, whose classes are not yet known."""
    ops, rank = list(op.regions[0].blocks[0].operations), op.ranks[0]
    declared = tuple(_lane(each) for each in ops if isinstance(each, dm.LaneOp))
    known = [channel for channel in job.channels if channel.axes and {*channel.axes} <= {*job.mesh}]
    along = {channel.name: job.layout.group(rank, channel.axes) for channel in known}
    lanes = {lane.name: (i, lane, along.get(lane.channel or "", ())) for i, lane in enumerate(declared)}
    return Program(
        rank=rank,
        arenas={each.space.value: each.bytes.value for each in ops if isinstance(each, dm.ArenaOp)},
        lanes=declared,
        slots=tuple(_slot(each) for each in ops if isinstance(each, dm.SlotOp)),
        commands=tuple(_COMMANDS[type(each)](each, lanes) for each in ops if type(each) in _COMMANDS),
        buffers=tuple(_buffer(each) for each in ops if isinstance(each, dm.BufferOp)),
    )


def _lane(op: dm.LaneOp) -> Lane:
    return Lane(op.sym_name.value, op.queue.value, None if op.channel is None else op.channel.value)


def _slot(op: dm.SlotOp) -> Slot:
    type_ = operand_of(ir.TypeAttr(op.attributes["type"]).value)
    name = op.attributes["name"].value
    return Slot(name, op.role.value, type_.dtype, type_.shape, _range(op.range))


def _buffer(op: dm.BufferOp) -> Buffer:
    return Buffer(op.label.value, op.category.value, _range(op.range), op.first.value, op.last.value)


def _launch(op: dm.LaunchOp, lanes: _Lanes) -> Launch:
    reads, writes = (tuple(map(_range, ranges)) for ranges in (op.reads, op.writes))
    variants = None
    if op.variants is not None and op.group is not None:
        variants = Variants(dm.group_axes(op.group), tuple(each.value for each in op.variants))
    label, action = _text(op.label), _text(op.action)
    scratch, slices = _optional(op.scratch), _slices(op)
    return Launch(_on(op, lanes), op.kernel.value, reads, writes, scratch, label, slices, variants, action)


def _move(op: dm.MoveOp, lanes: _Lanes) -> Move:
    return Move(_on(op, lanes), _range(op.source), _range(op.target), _text(op.label), _slices(op))


def _collective(op: dm.CollectiveOp, lanes: _Lanes) -> Collective:
    lane, declared, members = lanes[op.lane.value]
    flat = [] if op.pairs is None else list(op.pairs)
    return Collective(
        lane=lane,
        kind=op.kind.value,
        # The verifier of dm.program has checked that only lanes with a channel hold collectives.
        channel=declared.channel or "",
        ranks=members if op.ranks is None else tuple(op.ranks),
        instance=op.instance.value,
        dtype=str(ir.TypeAttr(op.attributes["type"]).value),
        count=op.count.value,
        source=_optional(op.source),
        target=_optional(op.target),
        reduction=None if op.reduction is None else op.reduction.value,
        accumulate=None if op.accumulate is None else str(op.accumulate.value),
        peer=None if op.peer is None else op.peer.value,
        pairs=tuple(zip(flat[0::2], flat[1::2], strict=True)),
        label=_text(op.label),
        slices=_slices(op),
        action=_text(op.action),
    )


def _slices(op: Any) -> tuple[Slice, ...]:
    return tuple(
        Slice(each.read.value, {stride.name: stride.attr.value for stride in each.strides}) for each in op.slices or ()
    )


def _on(op: Any, lanes: _Lanes) -> int:
    return lanes[op.lane.value][0]


def _range(attribute: dm.RangeAttr) -> Range:
    first, length = bounds(attribute)
    return Range(attribute.arena.value, first, length)


def _optional(attribute: dm.RangeAttr | None) -> Range | None:
    return None if attribute is None else _range(attribute)


def _text(attribute: Any) -> str:
    return "" if attribute is None else attribute.value


def _of(attributes: Any, name: str, default: Any) -> Any:
    return attributes[name].value if name in attributes else default


_COMMANDS: dict[type, Callable[[Any, _Lanes], Command]] = {
    dm.LaunchOp: _launch,
    dm.MoveOp: _move,
    dm.CollectiveOp: _collective,
    dm.RecordOp: lambda op, lanes: Record(_on(op, lanes), op.event.value),
    dm.AwaitOp: lambda op, lanes: Await(_on(op, lanes), op.event.value),
}
