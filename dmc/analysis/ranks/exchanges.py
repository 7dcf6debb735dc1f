"""Sums of a value and of that of the one other rank in a group: the same on both, as additions commute.

(But for the bits of a NaN, which are those of one operand on some processors.)
"""

from __future__ import annotations

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.collectives import permute_sources_and_targets
from dmc.walk import is_parallel

_GENERIC = "linalg.generic"
_WIDEN, _NARROW, _ADD, _YIELD = "arith.extf", "arith.truncf", "arith.addf", "linalg.yield"


def exchanged(op: ir.Operation) -> dm.PermuteOp | None:
    """The exchange in `add(%x, permute(%x))`, elementwise, between two ranks; None for any other operation."""
    if op.name != _GENERIC or (len(op.operands), len(op.results)) != (3, 1) or not is_parallel(op):
        return None
    own, other, _ = op.operands
    if isinstance(other.owner, ir.Block) or not isinstance(exchange := other.owner.opview, dm.PermuteOp):
        return None
    is_own = exchange.input == own and _is_swap(exchange)
    maps = list(ir.ArrayAttr(op.attributes["indexing_maps"]))
    return exchange if is_own and maps[0] == maps[1] and _commutes(op.regions[0].blocks[0]) else None


def _is_swap(exchange: dm.PermuteOp) -> bool:
    """Whether the two ranks of a group, which has no others, give each other what they hold."""
    sources, targets = permute_sources_and_targets(exchange)
    if sorted(zip(sources, targets, strict=True)) != [(0, 1), (1, 0)]:
        return False
    root = exchange.operation
    while root.parent is not None:
        root = root.parent
    return dm.Symbols.of(root.opview).group_size(exchange.group) == 2


def _commutes(block: ir.Block) -> bool:
    """Whether a body adds its first two arguments: widened alike before, and rounded once behind."""
    own, other, begin = block.arguments
    if any(True for _ in begin.uses):
        return False
    adds = [view.operation for view in block.operations if view.operation.name == _ADD]
    names = [view.operation.name for view in block.operations if view.operation.name != _ADD]
    narrow = [_WIDEN, _WIDEN, _NARROW, _YIELD]
    if len(adds) != 1 or names not in ([_YIELD], narrow):
        return False
    given = [_widened_from(value) for value in adds[0].operands]
    *_, end = block.operations
    result = end.operands[0]
    if isinstance(result.owner, ir.Block):
        return False
    if names == narrow and result.owner.name == _NARROW:
        result = result.owner.operands[0]
    return given == [own, other] and result == adds[0].results[0]


def _widened_from(value: ir.Value) -> ir.Value:
    is_wide = not isinstance(value.owner, ir.Block) and value.owner.name == _WIDEN
    return value.owner.operands[0] if is_wide else value
