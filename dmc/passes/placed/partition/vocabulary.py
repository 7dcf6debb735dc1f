"""Embeddings whose table is split by rows: a rank looks up its own rows, and the results are summed over the ranks.

Vocabulary-parallel embeddings are those of Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import arith, ir, linalg, tensor


def look_up(op: ir.Operation, places: ir.Value, rows: int, shape: Sequence[int]) -> ir.Operation:
    """A rank's contribution to the composite `embedding` `op`, whose table already is the rank's part.

    places: i64, the indices of the part's rows in the whole table, which has `rows`. shape: of the rank's part of the
    result, which still has the global type. A row of another rank is zero here; a row out of range is NaN on all ranks,
    as in the composite. Replaces `op`.
    """
    table, index = op.operands
    kind = ir.RankedTensorType(op.results[0].type)
    loops, element = kind.rank, kind.element_type
    maps = [ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(i) for i in range(n)]) for n in (loops - 1, loops)]
    with op.location, ir.InsertionPoint(op):
        first = _first(places)
        generic = linalg.GenericOp(
            [kind],
            [index],
            [tensor.empty(list(shape), element)],
            ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
            ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * loops),
        )
        body = generic.regions[0].blocks.append(index.type.element_type, element)
        with ir.InsertionPoint(body):
            row, column = body.arguments[0], linalg.IndexOp(loops - 1).result
            own = arith.SubIOp(row, first).result
            is_own = _is_in_range(own, table.type.shape[0])
            place = arith.IndexCastOp(ir.IndexType.get(), arith.SelectOp(is_own, own, _constant(own.type, 0))).result
            value = tensor.ExtractOp(table, [place, column]).result
            zero, nan = (arith.ConstantOp(element, number).result for number in (0.0, float("nan")))
            missing = arith.SelectOp(_is_in_range(row, rows), zero, nan).result
            linalg.YieldOp([arith.SelectOp(is_own, value, missing).result])
    for old, new in zip(op.results, generic.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return generic.operation


def _first(places: ir.Value) -> ir.Value:
    return tensor.ExtractOp(places, [_constant(ir.IndexType.get(), 0)]).result


def _is_in_range(value: ir.Value, size: int) -> ir.Value:
    above = arith.CmpIOp(arith.CmpIPredicate.sge, value, _constant(value.type, 0)).result
    below = arith.CmpIOp(arith.CmpIPredicate.slt, value, _constant(value.type, size)).result
    return arith.AndIOp(above, below).result


def _constant(kind: ir.Type, value: int) -> ir.Value:
    return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, value)).result
