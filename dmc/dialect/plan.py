"""The planned form: builders and rules of `dm.program` and of what stands in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, get_args

from dmc._mlir import func, ir
from dmc.dialect import build as b
from dmc.dialect._dm_gen import (
    ArenaOp,
    AwaitOp,
    BufferOp,
    ChannelOp,
    CollectiveOp,
    LaneOp,
    LaunchOp,
    MoveOp,
    ProgramOp,
    RangeAttr,
    RecordOp,
    SlotOp,
)
from dmc.dialect.rules import Violation, region_rule, rule, symbol_rule
from dmc.dialect.spec import check_attribute
from dmc.dialect.symbols import Symbols, module_rule
from dmc.errors import DmcError
from dmc.program import CollectiveKind

DECLARATIONS = (ArenaOp, LaneOp, SlotOp, BufferOp)
COMMANDS = (LaunchOp, MoveOp, CollectiveOp, RecordOp, AwaitOp)
REDUCING = ("all_reduce", "reduce_scatter")


def program(
    rank: int,
    body: Callable[[], None],
    *,
    name: str | None = None,
    loc: ir.Location | None = None,
    ip: ir.InsertionPoint | None = None,
) -> ProgramOp:
    """Builds `dm.program`: all that one rank does in a step.

    `body` builds what stands in it, at the insertion point that it finds. Raises DmcError where a rule does not hold.
    """

    def fill(block: ir.Block) -> None:
        with ir.InsertionPoint(block):
            body()

    return b.build(
        ProgramOp,
        operands=[None],
        results=[],
        attributes={"sym_name": b.string(name or f"rank{rank}"), "rank": b.i64(rank)},
        loc=loc,
        ip=ip,
        body=fill,
    )


def byte_range(arena: str, offset: int, length: int) -> RangeAttr:
    """`#dm.range<@arena, [offset, length]>`, in bytes. Raises DmcError on an offset below 0 or a length below 1."""
    bounds = ir.ArrayAttr.get([b.i64(offset), b.i64(length)])
    attribute = RangeAttr.get(ir.FlatSymbolRefAttr.get(arena), bounds)
    try:
        check_attribute(attribute)
    except Violation as violation:
        raise DmcError(None, str(violation)) from None
    return attribute


def bounds(attribute: RangeAttr) -> tuple[int, int]:
    """First byte and number of bytes."""
    first, length = (each.value for each in attribute.bounds)
    return first, length


@rule(RangeAttr)
def range_has_two_bounds(attribute: RangeAttr) -> None:
    """`#dm.range<@device, [-1, 4]>` and `[0, 0]` are refused."""
    each = [bound.value for bound in attribute.bounds]
    if len(each) != 2 or each[0] < 0 or each[1] < 1:
        raise Violation(f"{attribute}: bounds are {each}; they must be a first byte and a number of bytes above 0")


@rule(ArenaOp)
def arena_is_named_as_its_space(op: ArenaOp) -> None:
    """Ranges name the space."""
    if op.sym_name.value != op.space.value:
        raise Violation(f"is named '{op.sym_name.value}' and lies in {op.space.value}; name it '{op.space.value}'")
    if op.bytes.value < 1:
        raise Violation("has no bytes; leave it out")


@rule(LaneOp)
def comm_lanes_have_a_channel(op: LaneOp) -> None:
    """Exactly the lanes of queue `comm` have a channel."""
    if (op.queue.value == "comm") != (op.channel is not None):
        raise Violation(f"is of queue {op.queue.value} and has channel {op.channel}; lanes of queue comm have one")


@rule(BufferOp)
def buffer_ends_after_it_begins(op: BufferOp) -> None:
    """`first` is not behind `last`."""
    if op.first.value > op.last.value:
        raise Violation(f"lives from command {op.first.value} to command {op.last.value}; it must end after it begins")


@rule(SlotOp)
def slot_has_room_for_its_type(op: SlotOp) -> None:
    """The range has the size of the type."""
    type_ = ir.TypeAttr(op.attributes["type"]).value
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise Violation(f"its type is {type_}; it must be a tensor of static shape")
    _check_size("range", op.range, type_)


@rule(MoveOp)
def move_copies_as_much_as_it_reads(op: MoveOp) -> None:
    """Both ranges are of one length and apart."""
    (source, length), (target, room) = bounds(op.source), bounds(op.target)
    if length != room:
        raise Violation(f"copies {length} bytes to {room}; both ranges must be of one length")
    if op.source.arena == op.target.arena and source < target + room and target < source + length:
        raise Violation(f"copies {op.source} onto {op.target}, which overlaps it")


@rule(CollectiveOp)
def collective_has_the_sizes_of_its_kind(op: CollectiveOp) -> None:
    """The kind exists, and source and target hold what it says."""
    kind = op.kind.value
    if kind not in get_args(CollectiveKind):
        raise Violation(f"its kind is '{kind}'; it must be one of {', '.join(get_args(CollectiveKind))}")
    has = (op.reduction is not None, op.accumulate is not None)
    if has != ((True, True) if kind in REDUCING else (False, False)):
        raise Violation(f"{kind}: exactly {' and '.join(REDUCING)} have a reduction and a type to accumulate in")
    members, element = len(op.ranks), element_bytes(ir.TypeAttr(op.attributes["type"]).value)
    count = op.count.value
    if kind in ("reduce_scatter", "all_to_all") and count % members:
        raise Violation(f"{kind}: {members} members do not divide {count} elements")
    given = count * {"all_gather": members}.get(kind, 1) // (members if kind == "reduce_scatter" else 1)
    _check_bytes(kind, "source", op.source, None if kind == "recv" else count * element)
    _check_bytes(kind, "target", op.target, None if kind == "send" else given * element)
    if kind in ("broadcast", "send", "recv") and not (op.peer is not None and op.peer.value < members):
        raise Violation(f"{kind}: its peer must be an index below {members}")


@region_rule(ProgramOp)
def program_declares_what_it_uses(op: ProgramOp) -> None:
    """Declarations stand before commands, and lanes, arenas and events that are named exist."""
    ops = list(op.regions[0].blocks[0].operations)
    declared = _Declared.of(ops)
    seen_command = False
    for inner in ops:
        is_command = isinstance(inner, COMMANDS)
        if not is_command and not isinstance(inner, DECLARATIONS):
            raise Violation(f"holds {inner.operation.name}; a program holds ops of the plan only")
        if not is_command and seen_command:
            raise Violation(f"{inner.operation.name} at {inner.location} stands behind a command; declare it before")
        seen_command |= is_command
        declared.check(inner)


@dataclass(frozen=True)
class _Declared:
    arenas: Mapping[str, int]
    lanes: Mapping[str, str]
    recorded: set[int]

    @staticmethod
    def of(ops: list[Any]) -> _Declared:
        arenas = _by_name("arena", ((op.sym_name.value, op.bytes.value) for op in ops if isinstance(op, ArenaOp)))
        lanes = [op for op in ops if isinstance(op, LaneOp)]
        _by_name("channel", ((op.channel.value, op) for op in lanes if op.channel is not None))
        _by_name("slot", ((op.attributes["name"].value, op) for op in ops if isinstance(op, SlotOp)))
        return _Declared(arenas, _by_name("lane", ((op.sym_name.value, op.queue.value) for op in lanes)), set())

    def check(self, op: Any) -> None:
        """Raises Violation where `op` names what does not exist."""
        for attribute in ranges_of(op):
            self._check_range(op, attribute)
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


@symbol_rule(LaunchOp)
def launch_fits_its_kernel(op: LaunchOp, symbols: Symbols) -> None:
    """The kernel is a private function whose types have the sizes of the ranges."""
    function = symbols.ops.get(op.kernel.value)
    if function is None or function.name != func.FuncOp.OPERATION_NAME:
        raise Violation(f"its kernel {op.kernel} is no function of the module")
    type_ = function.attributes["function_type"].value
    for kind, ranges, types in (("reads", op.reads, type_.inputs), ("writes", op.writes, type_.results)):
        if len(ranges) != len(types):
            raise Violation(f"{kind} {len(ranges)} ranges, but {op.kernel} has {len(types)}")
        for attribute, each in zip(ranges, types, strict=True):
            _check_size(kind, attribute, each)


@symbol_rule(LaneOp)
def lane_has_a_declared_channel(op: LaneOp, symbols: Symbols) -> None:
    """The channel is one of the module."""
    if op.channel is None:
        return
    found = symbols.ops.get(op.channel.value)
    if found is None or found.name != ChannelOp.OPERATION_NAME:
        raise Violation(f"its channel {op.channel} is not declared in the module")


@module_rule(ProgramOp)
def ranks_have_one_program_each(ops: list[ProgramOp]) -> None:
    """Programs are those of the ranks 0 to n - 1."""
    seen: dict[int, ProgramOp] = {}
    for op in ops:
        if op.rank.value in seen:
            raise DmcError(op.operation, f"rank {op.rank.value} has a program already")
        seen[op.rank.value] = op
    if ops and set(seen) != set(range(len(ops))):
        raise DmcError(ops[0].operation, f"programs are of ranks {sorted(seen)}; they must be of 0 to {len(ops) - 1}")


def ranges_of(op: Any) -> Iterator[RangeAttr]:
    """Every range that a declaration or a command names."""
    for name in ("range", "source", "target", "scratch"):
        if isinstance(attribute := op.attributes.get(name), RangeAttr):
            yield attribute
    for name in ("reads", "writes"):
        yield from op.attributes.get(name, ())


def element_bytes(type_: ir.Type) -> int:
    """Bytes of one element in memory; an i1 takes one."""
    if not isinstance(type_, ir.FloatType | ir.IntegerType):
        raise Violation(f"elements of type {type_} have no size")
    return max(type_.width, 8) // 8


def type_bytes(type_: ir.RankedTensorType) -> int:
    """Bytes of a tensor of static shape, row-major and dense."""
    return prod(type_.shape) * element_bytes(type_.element_type)


def _by_name(what: str, pairs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise Violation(f"declares {what} '{name}' twice")
        found[name] = value
    return found


def _check_size(name: str, attribute: RangeAttr, type_: ir.RankedTensorType) -> None:
    if bounds(attribute)[1] != type_bytes(type_):
        raise Violation(f"{name} {attribute} has not the {type_bytes(type_)} bytes of {type_}")


def _check_bytes(kind: str, name: str, attribute: RangeAttr | None, wanted: int | None) -> None:
    has = None if attribute is None else bounds(attribute)[1]
    if has != wanted:
        raise Violation(f"{kind}: its {name} has {has} bytes; it must have {wanted}")
