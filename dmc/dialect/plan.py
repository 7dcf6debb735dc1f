"""The planned form: `dm.program`, byte ranges, declarations of a program, and the programs of all ranks together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dmc._mlir import ir
from dmc.dialect import build as b
from dmc.dialect._dm_gen import (
    ArenaOp,
    AwaitOp,
    BufferOp,
    ChannelOp,
    CollectiveOp,
    LaneOp,
    LaunchOp,
    MeshOp,
    MoveOp,
    ProgramOp,
    RangeAttr,
    RecordOp,
    SliceAttr,
    SlotOp,
)
from dmc.dialect.rules import Violation, region_rule, rule, symbol_rule
from dmc.dialect.spec import check_attribute
from dmc.dialect.symbols import Symbols, job_rule
from dmc.errors import DmcError
from dmc.memo import once, remembered

DECLARATIONS = (ArenaOp, LaneOp, SlotOp, BufferOp)
COMMANDS = (LaunchOp, MoveOp, CollectiveOp, RecordOp, AwaitOp)


def program(
    ranks: Sequence[int],
    body: Callable[[], object],
    *,
    name: str | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ProgramOp:
    """Builds `dm.program`: the program of a class of ranks for a step.

    `body` builds its contents at the insertion point. Raises DmcError if a rule is violated.
    """

    def fill(block: ir.Block) -> None:
        with ir.InsertionPoint(block):
            body()

    return b.build(
        ProgramOp,
        operands=[None],
        results=[],
        attributes={
            "sym_name": b.string(name or f"program{ranks[0]}"),
            "ranks": ir.DenseI64ArrayAttr.get(list(ranks)),
        },
        loc=loc,
        ip=ip,
        body=fill,
    )


def byte_range(arena: str, offset: int, length: int) -> RangeAttr:
    """`#dm.range<@arena, [offset, length]>`, in bytes. Raises DmcError on an offset below 0 or a length below 1."""
    bounds = ir.ArrayAttr.get([b.i64(offset), b.i64(length)])
    attribute = RangeAttr.get(ir.FlatSymbolRefAttr.get(arena), bounds)
    try:
        once(check_attribute, attribute)
    except Violation as violation:
        raise DmcError(None, str(violation)) from None
    return attribute


def bounds(attribute: RangeAttr) -> tuple[int, int]:
    """First byte and number of bytes."""
    return once(_bounds, attribute)


def _bounds(attribute: RangeAttr) -> tuple[int, int]:
    first, length = (each.value for each in attribute.bounds)
    return first, length


@rule(RangeAttr)
def range_has_two_bounds(attribute: RangeAttr) -> None:
    """`#dm.range<@device, [-1, 4]>` and `[0, 0]` are refused."""
    each = [bound.value for bound in attribute.bounds]
    if len(each) != 2 or each[0] < 0 or each[1] < 1:
        raise Violation(f"{attribute}: bounds are {each}; they must be a first byte and a number of bytes above 0")


def slice_of(read: int, strides: Mapping[str, int]) -> SliceAttr:
    """`#dm.slice<read, {axis = bytes}>`."""
    return SliceAttr.get(b.i64(read), ir.DictAttr.get({axis: b.i64(stride) for axis, stride in strides.items()}))


@rule(SliceAttr)
def slice_has_strides(attribute: SliceAttr) -> None:
    """Strides are bytes, none of them negative."""
    for stride in attribute.strides:
        if not isinstance(stride.attr, ir.IntegerAttr) or stride.attr.value < 0:
            raise Violation(f"{attribute}: the stride along {stride.name} is {stride.attr}; it must be 0 or more bytes")


@rule(LaunchOp, MoveOp, CollectiveOp)
def slices_are_sound(op: Any) -> None:
    """Each of `slices` has strides."""
    for attribute in op.slices or ():
        once(check_attribute, attribute)


@symbol_rule(LaunchOp, MoveOp, CollectiveOp)
def slices_are_of_reads(op: Any, symbols: Symbols) -> None:
    """The command has such a read, and the mesh has the axes."""
    if op.slices is None:
        return
    reads = len(op.reads) if isinstance(op, LaunchOp) else int(op.source is not None)
    axes = {
        axis.value
        for each in symbols.ops.values()
        if each.name == MeshOp.OPERATION_NAME
        for axis in each.attributes["axes"]
    }
    for each in op.slices:
        if each.read.value >= reads:
            raise Violation(f"{each}: it has {reads} reads, numbered from 0")
        if missing := [stride.name for stride in each.strides if stride.name not in axes]:
            raise Violation(f"{each}: no mesh has an axis '{missing[0]}'")


@rule(ArenaOp)
def arena_is_named_as_its_space(op: ArenaOp) -> None:
    """Ranges refer to the memory space by name."""
    if op.sym_name.value != op.space.value:
        raise Violation(f"is named '{op.sym_name.value}' but is in {op.space.value}; name it '{op.space.value}'")
    if op.bytes.value < 1:
        raise Violation("has no bytes; omit it")


@rule(LaneOp)
def comm_lanes_have_a_channel(op: LaneOp) -> None:
    """Exactly the lanes of queue `comm` have a channel."""
    if (op.queue.value == "comm") != (op.channel is not None):
        raise Violation(
            f"has queue {op.queue.value} and channel {op.channel}; exactly lanes of queue comm have a channel"
        )


@rule(BufferOp)
def buffer_ends_after_it_begins(op: BufferOp) -> None:
    """`first` is not after `last`."""
    if op.first.value > op.last.value:
        raise Violation(
            f"is live from command {op.first.value} to command {op.last.value}; it must not end before it begins"
        )


@rule(SlotOp)
def slot_has_room_for_its_type(op: SlotOp) -> None:
    """The range has the size of the type."""
    check_size("range", op.range, ir.TypeAttr(op.attributes["type"]).value)


@region_rule(ProgramOp)
def program_declares_what_it_uses(op: ProgramOp) -> None:
    """Declarations precede commands, and referenced lanes, arenas and events exist."""
    ops = list(op.regions[0].blocks[0].operations)
    if list(op.ranks) != sorted({*op.ranks}) or not len(op.ranks) or op.ranks[0] < 0:
        raise Violation(f"its ranks are {list(op.ranks)}; they must be numbers that ascend")
    declared = _Declared.of(op.ranks[0], ops)
    seen_command = False
    for inner in ops:
        is_command = isinstance(inner, COMMANDS)
        if not is_command and not isinstance(inner, DECLARATIONS):
            raise Violation(f"contains {inner.operation.name}; a program may only contain ops of the plan")
        if not is_command and seen_command:
            raise Violation(
                f"{inner.operation.name} at {inner.location} follows a command; move it before all commands"
            )
        seen_command |= is_command
        declared.check(inner)


@dataclass(frozen=True)
class _Declared:
    rank: int
    arenas: Mapping[str, int]
    lanes: Mapping[str, str]
    recorded: set[int]

    @staticmethod
    def of(rank: int, ops: list[Any]) -> _Declared:
        arenas = _by_name("arena", ((op.sym_name.value, op.bytes.value) for op in ops if isinstance(op, ArenaOp)))
        lanes = [op for op in ops if isinstance(op, LaneOp)]
        _by_name("channel", ((op.channel.value, op) for op in lanes if op.channel is not None))
        _by_name("slot", ((op.attributes["name"].value, op) for op in ops if isinstance(op, SlotOp)))
        return _Declared(rank, arenas, _by_name("lane", ((op.sym_name.value, op.queue.value) for op in lanes)), set())

    def check(self, op: Any) -> None:
        """Raises Violation if `op` refers to something that does not exist."""
        for attribute in ranges_of(op):
            self._check_range(op, attribute)
        if isinstance(op, CollectiveOp) and op.ranks is not None and self.rank not in list(op.ranks):
            raise Violation(f"{op.operation.name} at {op.location} is for ranks {list(op.ranks)}, without {self.rank}")
        if not isinstance(op, COMMANDS):
            return
        lane = op.lane.value
        if lane not in self.lanes:
            raise Violation(f"{op.operation.name} at {op.location} is on lane '{lane}', which is not declared")
        if isinstance(op, LaunchOp | CollectiveOp) and (self.lanes[lane] == "comm") != isinstance(op, CollectiveOp):
            raise Violation(f"{op.operation.name} at {op.location} cannot go on '{lane}', of queue {self.lanes[lane]}")
        if isinstance(op, RecordOp):
            if op.event.value in self.recorded:
                raise Violation(f"event {op.event.value} is recorded twice, again at {op.location}")
            self.recorded.add(op.event.value)
        if isinstance(op, AwaitOp) and op.event.value not in self.recorded:
            raise Violation(f"event {op.event.value} is awaited at {op.location} but not recorded before")

    def _check_range(self, op: Any, attribute: RangeAttr) -> None:
        room = self.arenas.get(attribute.arena.value)
        if room is None:
            raise Violation(f"{op.operation.name} at {op.location} uses {attribute}, whose arena is not declared")
        first, length = bounds(attribute)
        if first + length > room:
            fact = f"{op.operation.name} at {op.location} uses {attribute}, but the arena has {room} bytes"
            raise Violation(fact)


@symbol_rule(LaneOp)
def lane_has_a_declared_channel(op: LaneOp, symbols: Symbols) -> None:
    """The channel is declared in the module."""
    if op.channel is None:
        return
    found = symbols.ops.get(op.channel.value)
    if found is None or found.name != ChannelOp.OPERATION_NAME:
        raise Violation(f"its channel {op.channel} is not declared in the module")


@job_rule(ProgramOp, MeshOp)
def ranks_have_one_program_each(ops: list[ProgramOp | MeshOp]) -> None:
    """Each rank of the mesh, or the only rank without a mesh, is in one program."""
    programs = [op for op in ops if isinstance(op, ProgramOp)]
    if not programs:
        return
    seen: set[int] = set()
    for op in programs:
        if twice := seen & {*op.ranks}:
            raise DmcError(op.operation, f"rank {min(twice)} already has a program", "remove one of the two")
        seen.update(op.ranks)
    ranks = max((prod(op.sizes) for op in ops if isinstance(op, MeshOp)), default=1)
    if seen != set(range(ranks)):
        fact = f"programs are for ranks {sorted(seen)}; there must be one for each of {ranks}, numbered from 0"
        raise DmcError(programs[0].operation, fact, "lower the step for the mesh that the module declares")


def ranges_of(op: Any) -> Iterator[RangeAttr]:
    """Every range that a declaration or a command uses."""
    for name in ("range", "source", "target", "scratch"):
        if isinstance(attribute := op.attributes.get(name), RangeAttr):
            yield attribute
    for name in ("reads", "writes"):
        yield from op.attributes.get(name, ())


@remembered
def element_bytes(type_: ir.Type) -> int:
    """Bytes of one element in memory; an i1 takes one. Raises Violation on a type without a size."""
    if not isinstance(type_, ir.FloatType | ir.IntegerType):
        raise Violation(f"elements of type {type_} have no size")
    return max(type_.width, 8) // 8


@remembered
def type_bytes(type_: ir.Type) -> int:
    """Bytes of a tensor of static shape, row-major and dense. Raises Violation on another type."""
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise Violation(f"{type_} cannot be in an arena; it must be a tensor of static shape")
    return prod(type_.shape) * element_bytes(type_.element_type)


def check_size(name: str, attribute: RangeAttr, type_: ir.Type) -> None:
    """Raises Violation unless the range has the bytes of the type."""
    if bounds(attribute)[1] != type_bytes(type_):
        raise Violation(f"{name} {attribute} does not have the {type_bytes(type_)} bytes of {type_}")


def _by_name(what: str, pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Violation(f"declares {what} '{name}' twice")
        found[name] = value
    return found
