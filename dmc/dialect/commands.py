"""Rules of the commands of the planned form: launches, moves and collectives."""

from __future__ import annotations

from dmc._mlir import func, ir
from dmc.dialect._dm_gen import ChannelOp, CollectiveOp, LaneOp, LaunchOp, MoveOp, RangeAttr
from dmc.dialect.collectives import check_reduction
from dmc.dialect.plan import bounds, check_size, element_bytes
from dmc.dialect.rules import Violation, rule, symbol_rule
from dmc.dialect.spec import check_attribute
from dmc.dialect.symbols import Symbols
from dmc.memo import once
from dmc.program import collectives
from dmc.program.collectives import KINDS, REDUCING, WITH_PEER


@rule(LaunchOp)
def launch_names_ranges(op: LaunchOp) -> None:
    """Each of `reads` and `writes` has two bounds."""
    for attribute in (*op.reads, *op.writes):
        once(check_attribute, attribute)


@symbol_rule(LaunchOp)
def launch_fits_its_kernels(op: LaunchOp, symbols: Symbols) -> None:
    """The kernel and its variants, one for each member, are private functions whose types have the ranges' sizes."""
    if (op.variants is None) != (op.group is None):
        raise Violation("has variants without a group, or a group without variants; both or neither must be given")
    if op.variants is not None and op.group is not None and len(op.variants) != symbols.group_size(op.group):
        members = symbols.group_size(op.group)
        raise Violation(f"has {len(op.variants)} variants, but {op.group} has {members} members")
    for kernel in dict.fromkeys((op.kernel, *(op.variants or ()))):
        _check_kernel(op, kernel, symbols)


def _check_kernel(op: LaunchOp, kernel: ir.FlatSymbolRefAttr, symbols: Symbols) -> None:
    function = symbols.ops.get(kernel.value)
    if function is None or function.name != func.FuncOp.OPERATION_NAME:
        raise Violation(f"its kernel {kernel} is not a function of the module")
    visibility = function.attributes.get("sym_visibility")
    if visibility is None or visibility.value != "private":
        raise Violation(f"its kernel {kernel} is public; make it private: only programs run it")
    type_ = function.attributes["function_type"].value
    for kind, ranges, types in (("reads", op.reads, type_.inputs), ("writes", op.writes, type_.results)):
        if len(ranges) != len(types):
            raise Violation(f"{kind} {len(ranges)} ranges, but {kernel} has {len(types)}")
        for attribute, each in zip(ranges, types, strict=True):
            check_size(kind, attribute, each)


@rule(MoveOp)
def move_copies_as_much_as_it_reads(op: MoveOp) -> None:
    """Both ranges have equal length and do not overlap."""
    (source, length), (target, room) = bounds(op.source), bounds(op.target)
    if length != room:
        raise Violation(f"copies {length} bytes to {room}; both ranges must have equal length")
    if op.source.arena == op.target.arena and source < target + room and target < source + length:
        raise Violation(f"copies {op.source} onto {op.target}, which overlaps it")


@rule(CollectiveOp)
def collective_says_what_its_kind_needs(op: CollectiveOp) -> None:
    """The kind exists; reductions, peers and pairs are present exactly where they apply."""
    kind = op.kind.value
    if kind not in KINDS:
        raise Violation(f"its kind is '{kind}'; it must be one of {', '.join(sorted(KINDS))}")
    given = (op.reduction is not None, op.accumulate is not None)
    if given != ((True, True) if kind in REDUCING else (False, False)):
        raise Violation(f"{kind}: exactly {' and '.join(REDUCING)} have a reduction and an accumulation type")
    if op.reduction is not None and op.accumulate is not None:
        check_reduction(_element(op), op.accumulate.value, op.reduction.value)
    if (op.peer is not None) != (kind in WITH_PEER):
        raise Violation(f"{kind}: exactly {', '.join(WITH_PEER)} have a peer")
    if (op.pairs is not None) != (kind == "permute"):
        raise Violation(f"{kind}: exactly permute has pairs")


@rule(CollectiveOp)
def collective_fits_its_ranks(op: CollectiveOp) -> None:
    """Stated ranks are distinct; peers and pairs are indices of members, and sizes those of the kind."""
    if op.ranks is None:
        return
    members = list(op.ranks)
    if not members or len(set(members)) != len(members) or min(members) < 0:
        raise Violation(f"its ranks are {members}; they must be distinct ranks")
    _check_members(op, len(members))


@symbol_rule(CollectiveOp)
def collective_fits_its_channel(op: CollectiveOp, symbols: Symbols) -> None:
    """Likewise for the members that a channel along axes gives; ranks are stated where it lists its groups."""
    # Lanes are declared before all commands, so few ops are looked at.
    lanes = (each for each in op.operation.block if isinstance(each, LaneOp) and each.sym_name.value == op.lane.value)
    lane = next(lanes, None)
    channel = symbols.ops.get(lane.channel.value) if lane is not None and lane.channel is not None else None
    if channel is None or channel.name != ChannelOp.OPERATION_NAME:
        return
    group = channel.attributes.get("group")
    if group is None and op.ranks is None:
        raise Violation(f"does not state its ranks, but channel @{channel.attributes['sym_name'].value} lists groups")
    if group is not None:
        _check_members(op, symbols.group_size(group))


def _check_members(op: CollectiveOp, members: int) -> None:
    if op.peer is not None and op.peer.value >= members:
        raise Violation(f"its peer is {op.peer.value}; it must be an index below {members}")
    _check_pairs(op, members)
    _check_sizes(op, members)


def _check_pairs(op: CollectiveOp, members: int) -> None:
    if op.pairs is None:
        return
    indices = list(op.pairs)
    sources, targets = indices[::2], indices[1::2]
    if not indices or len(sources) != len(targets):
        raise Violation(f"its pairs are {indices}; they must be alternating sources and targets")
    for role, places in (("source", sources), ("target", targets)):
        if len(set(places)) != len(places) or not 0 <= min(places) <= max(places) < members:
            raise Violation(f"its {role}s are {places}; each must be an index below {members}, and given once")


def _check_sizes(op: CollectiveOp, members: int) -> None:
    kind, count = op.kind.value, op.count.value
    if not collectives.is_divisible(kind, members, count):
        raise Violation(f"{kind}: {count} elements are not divisible by {members} members")
    element, elements = element_bytes(_element(op)), collectives.sizes(kind, members, count)
    for name, given, wanted in zip(("source", "target"), (op.source, op.target), elements, strict=True):
        _check_bytes(kind, name, given, (wanted or 0) * element)


def _element(op: CollectiveOp) -> ir.Type:
    # `type` of the op class is MLIR's own accessor.
    return ir.TypeAttr(op.attributes["type"]).value


def _check_bytes(kind: str, name: str, attribute: RangeAttr | None, wanted: int) -> None:
    has = 0 if attribute is None else bounds(attribute)[1]
    if has != wanted:
        raise Violation(f"{kind}: its {name} has {has} bytes; it must have {wanted}")
