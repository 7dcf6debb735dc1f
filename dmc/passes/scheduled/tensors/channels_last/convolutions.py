"""Convolutions as sums of products, over operands in any layout."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir, linalg
from dmc.analysis.kernels.contractions import REDUCTION
from dmc.analysis.kernels.layouts import permutation
from dmc.passes.scheduled.tensors.channels_last.generics import permuted_loops
from dmc.passes.scheduled.tensors.channels_last.images import TRANSPOSE, Images, Lying
from dmc.passes.scheduled.tensors.channels_last.orders import Order, channels_last, identity, is_image
from dmc.passes.shared.loops import GENERIC, PARALLEL, loops, scalar

PLAIN = "linalg.conv_2d_nchw_fchw"
_BROADCAST = "linalg.broadcast"
# Batch and channels exchanged.
_EXCHANGED = [1, 0, 2, 3]


def relaid(images: Images, op: ir.Operation) -> bool:
    """The convolution `op`, [N, C, H, W] by [F, C, h, w], over operands with channels last, at the insertion point.

    `%y = conv(%x, %w)` becomes a `linalg.generic` over rows, columns, N, F, h, w and C, in the order in which operands
    and result lie.
    """
    plain = op if op.name == GENERIC else _generic(op)
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(plain)]
    image, filters = (images.last(value) for value in list(op.operands)[:2])
    order = _result_order(op.results[0])
    orders = (image.order, filters.order, order)
    start, bias = op.operands[2], _bias(op.operands[2])
    begin = images.laid(start, order) if bias is None else images.zeros(start.type, order)
    sequence = _sequence(maps, filters.order, order)
    copy = permuted_loops(plain, [image.tensor, filters.tensor, begin], maps, orders, sequence)
    if plain != op:
        plain.erase()
    made = copy.results[0] if bias is None else _added(copy.results[0], bias, order.index(1))
    images.moved[op.results[0]] = Lying(made, order)
    return True


def _result_order(result: ir.Value) -> Order:
    """Channels last, also if all its readers read it with batch and channels exchanged: a gradient of filters."""
    base = channels_last(4) if is_image(result.type) else identity(4)
    readers = [use.owner.operation for use in result.uses]
    is_exchanged = readers and all(each.name == TRANSPOSE and permutation(each) == _EXCHANGED for each in readers)
    return tuple(_EXCHANGED[dim] for dim in base) if is_exchanged else base


def _sequence(maps: Sequence[ir.AffineMap], filters: Order, result: Order) -> list[int]:
    """The loops, outermost first: those of the result as it lies, then those of the depth as the filters lie."""
    places = [*(maps[2].results[dim] for dim in result), *(maps[1].results[dim] for dim in filters)]
    found = [place.position for place in places if isinstance(place, ir.AffineDimExpr)]
    return list(dict.fromkeys([*found, *range(maps[0].n_dims)]))


def _generic(op: ir.Operation) -> ir.Operation:
    """A convolution as loops over batch, filter, row, column, channel, and row and column of the filter.

    Loops of one iteration are left out.
    """
    count, filters, rows, columns = op.results[0].type.shape
    _, channels, down, across = op.operands[1].type.shape
    sizes = (count, filters, rows, columns, channels, down, across)
    left = [loop for loop, size in enumerate(sizes) if size != 1]
    at = [ir.AffineExpr.get_dim(left.index(i)) if i in left else ir.AffineExpr.get_constant(0) for i in range(7)]
    (high, wide), (down_by, across_by) = (
        [int(each) for each in ir.DenseIntElementsAttr(op.attributes[name])] for name in ("strides", "dilations")
    )
    places = [
        [at[0], at[4], at[2] * high + at[5] * down_by, at[3] * wide + at[6] * across_by],
        [at[1], at[4], at[5], at[6]],
        at[:4],
    ]
    kinds = [PARALLEL if loop < 4 else REDUCTION for loop in left]

    def added(x: ir.Value, y: ir.Value, total: ir.Value) -> ir.Value:
        factors = [_widened(each, total.type) for each in (x, y)]
        return scalar("arith.addf", total, scalar("arith.mulf", *factors))

    return loops(list(op.operands), places, kinds, added)


def _bias(start: ir.Value) -> ir.Value | None:
    """The numbers, one for each channel, that a convolution begins with: added behind it they need no memory."""
    owner = start.owner
    if isinstance(owner, ir.Block) or owner.name != _BROADCAST:
        return None
    value = owner.operation.operands[0]
    is_by_channel = list(ir.DenseI64ArrayAttr(owner.attributes["dimensions"])) == [0, 2, 3]
    return value if is_by_channel else None


def _added(value: ir.Value, bias: ir.Value, dim: int) -> ir.Value:
    """`value` with `bias` added along a dimension."""
    out = ir.Operation.create("tensor.empty", [value.type]).results[0]
    whole = [ir.AffineExpr.get_dim(i) for i in range(4)]
    places = [whole, [whole[dim]], whole]
    return loops([value, bias, out], places, [PARALLEL] * 4, lambda x, y, _: scalar("arith.addf", x, y)).results[0]


def _widened(value: ir.Value, type_: ir.Type) -> ir.Value:
    return value if value.type == type_ else ir.Operation.create("arith.extf", [type_], [value]).results[0]
