"""Rules of the commands of the planned form: launches, moves and collectives."""

from __future__ import annotations

from dmc._mlir import func, ir
from dmc.dialect._dm_gen import CollectiveOp, LaunchOp, MoveOp, RangeAttr
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
def launch_fits_its_kernel(op: LaunchOp, symbols: Symbols) -> None:
    """The kernel is a private function whose types have the sizes of the ranges."""
    function = symbols.ops.get(op.kernel.value)
    if function is None or function.name != func.FuncOp.OPERATION_NAME:
        raise Violation(f"its kernel {op.kernel} is not a function of the module")
    visibility = function.attributes.get("sym_visibility")
    if visibility is None or visibility.value != "private":
        raise Violation(f"its kernel {op.kernel} is public; make it private: only programs run it")
    type_ = function.attributes["function_type"].value
    for kind, ranges, types in (("reads", op.reads, type_.inputs), ("writes", op.writes, type_.results)):
        if len(ranges) != len(types):
            raise Violation(f"{kind} {len(ranges)} ranges, but {op.kernel} has {len(types)}")
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
    kind, members = op.kind.value, list(op.ranks)
    if kind not in KINDS:
        raise Violation(f"its kind is '{kind}'; it must be one of {', '.join(sorted(KINDS))}")
    if not members or len(set(members)) != len(members) or min(members) < 0:
        raise Violation(f"its ranks are {members}; they must be distinct ranks")
    given = (op.reduction is not None, op.accumulate is not None)
    if given != ((True, True) if kind in REDUCING else (False, False)):
        raise Violation(f"{kind}: exactly {' and '.join(REDUCING)} have a reduction and an accumulation type")
    if op.reduction is not None and op.accumulate is not None:
        check_reduction(_element(op), op.accumulate.value, op.reduction.value)
    if (op.peer is not None) != (kind in WITH_PEER):
        raise Violation(f"{kind}: exactly {', '.join(WITH_PEER)} have a peer")
    if op.peer is not None and op.peer.value >= len(members):
        raise Violation(f"its peer is {op.peer.value}; it must be an index below {len(members)}")
    if (op.pairs is not None) != (kind == "permute"):
        raise Violation(f"{kind}: exactly permute has pairs")


@rule(CollectiveOp)
def permutation_is_one_to_one(op: CollectiveOp) -> None:
    """`pairs` are indices of members, and none sends or receives twice."""
    if op.pairs is None:
        return
    indices = list(op.pairs)
    sources, targets = indices[::2], indices[1::2]
    if not indices or len(sources) != len(targets):
        raise Violation(f"its pairs are {indices}; they must be alternating sources and targets")
    for role, places in (("source", sources), ("target", targets)):
        if len(set(places)) != len(places) or not 0 <= min(places) <= max(places) < len(op.ranks):
            raise Violation(f"its {role}s are {places}; each must be an index below {len(op.ranks)}, and given once")


@rule(CollectiveOp)
def collective_has_the_sizes_of_its_kind(op: CollectiveOp) -> None:
    """Source and target have the sizes of the kind."""
    kind, members, count = op.kind.value, len(op.ranks), op.count.value
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
