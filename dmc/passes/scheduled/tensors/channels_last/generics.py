"""Loops over values that lie in other orders: indexing maps and loops are permuted, nothing else changes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dmc._mlir import ir, linalg
from dmc.analysis.kernels.contractions import is_contraction
from dmc.analysis.loops.splats import is_splat
from dmc.passes.scheduled.tensors.channels_last.images import Images, Lying
from dmc.passes.scheduled.tensors.channels_last.orders import Order, identity, is_image, permuted
from dmc.passes.shared.loops import indexing_maps, iterator_types
from dmc.walk import loop_kinds, walk


def relaid(images: Images, op: ir.Operation) -> bool:
    """Lets a generic read moved values where they lie, at the insertion point.

    False if most of what it reads has not moved, or if it reads a single number, or by another index than a loop's.
    """
    if not all(isinstance(value.type, ir.RankedTensorType) for value in op.operands):
        return False
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op)]
    main = _main(images, op)
    if main is None or is_contraction(op) or not all(map(_is_plain, maps)):
        return False
    sequence = _sequence(maps[main], images.of(op.operands[main]).order, maps[0].n_dims)
    orders = [_order(each, sequence, value.type) for each, value in zip(maps, op.operands, strict=True)]
    if any(_is_scattered(each, sequence, order) for each, order in zip(maps, orders, strict=True)):
        return False
    laid = [images.laid(value, order) for value, order in zip(op.operands, orders, strict=True)]
    copy = permuted_loops(op, laid, maps, orders, sequence)
    for result, new, order in zip(op.results, copy.results, orders[len(orders) - len(op.results) :], strict=True):
        images.moved[result] = Lying(new, order)
    return True


def _main(images: Images, op: ir.Operation) -> int | None:
    """The largest moved operand, if most has moved. State counts twice, as what it becomes must lie where it is."""
    moved: dict[int, int] = {}
    others = 0
    for i, value in enumerate(list(op.operands)[: len(op.operands) - len(op.results)]):
        size = prod(value.type.shape) if is_image(value.type) else 0
        if size and value in images.moved:
            moved[i] = size
        elif not is_splat(value):
            others += 2 * size if value in images.state else size
    return max(moved, key=lambda i: moved[i]) if moved and sum(moved.values()) >= others else None


def _is_plain(each: ir.AffineMap) -> bool:
    return all(isinstance(place, ir.AffineDimExpr | ir.AffineConstantExpr) for place in each.results)


def _sequence(main: ir.AffineMap, order: Order, count: int) -> list[int]:
    """The loops, outermost first: as the main operand lies; each of the others after the one that it follows."""
    places = [main.results[dim] for dim in order]
    sequence = [place.position for place in places if isinstance(place, ir.AffineDimExpr)]
    for loop in range(count):
        if loop not in sequence:
            sequence.insert(sequence.index(loop - 1) + 1 if loop else 0, loop)
    return sequence


def _order(each: ir.AffineMap, sequence: Sequence[int], type_: ir.RankedTensorType) -> Order:
    """The order in which an operand is read along the loops."""
    if not is_image(type_):
        return identity(len(type_.shape))
    rank = {loop: i for i, loop in enumerate(sequence)}
    places = [rank[place.position] if isinstance(place, ir.AffineDimExpr) else -1 for place in each.results]
    return tuple(sorted(identity(len(places)), key=places.__getitem__))


def _is_scattered(each: ir.AffineMap, sequence: Sequence[int], order: Order) -> bool:
    """Whether an operand would be read, or a result written, in another order than that of the loops."""
    places = [each.results[dim] for dim in order]
    ranks = [sequence.index(place.position) for place in places if isinstance(place, ir.AffineDimExpr)]
    return ranks != sorted(ranks)


def permuted_loops(
    op: ir.Operation,
    operands: Sequence[ir.Value],
    maps: Sequence[ir.AffineMap],
    orders: Sequence[Order],
    sequence: Sequence[int],
) -> ir.Operation:
    """A generic over the loops of `op` in another sequence, and over `operands`, its own in these orders."""
    copy = op.clone()
    count = len(sequence)
    renamed = ir.AffineMap.get(count, 0, [ir.AffineExpr.get_dim(sequence.index(loop)) for loop in range(count)])
    for i, value in enumerate(operands):
        copy.operands[i] = value
    for result, order in zip(copy.results, orders[len(orders) - len(copy.results) :], strict=True):
        result.set_type(permuted(result.type, order))
    places = [[each.results[dim].compose(renamed) for dim in order] for each, order in zip(maps, orders, strict=True)]
    kinds = loop_kinds(op)
    copy.attributes["indexing_maps"] = indexing_maps(count, places)
    copy.attributes["iterator_types"] = iterator_types([kinds[loop] for loop in sequence])
    for inner in walk(copy):
        if inner.name == "linalg.index":
            loop = sequence.index(ir.IntegerAttr(inner.attributes["dim"]).value)
            inner.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), loop)
    return copy
