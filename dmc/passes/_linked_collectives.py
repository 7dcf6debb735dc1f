"""What each collective is among the tensors of all ranks, in one memory: what all members have is one value.

So an all-gather is one `tensor.concat` for the whole group, an all-reduce one `linalg.generic`, which combines the
ranks' values in the order of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dmc import dialect as dm
from dmc._mlir import arith, ir, linalg, tensor
from dmc.dialect.collectives import permute_sources_and_targets
from dmc.errors import DmcError

Values = Sequence[ir.Value]


def link_collective(op: ir.Operation, values: Values) -> Values:
    """Emits, where we are, what `op` computes for the members of one group, whose operands are `values`, in order.

    Gives the members' results. Raises DmcError, naming the op, for elements that cannot be reduced with `arith`.
    """
    return RULES[op.name](op.opview, values)


def _all_gather(op: dm.AllGatherOp, values: Values) -> Values:
    return [_concat(values, op.dim.value)] * len(values)


def _all_slice(op: dm.AllSliceOp, values: Values) -> Values:
    return [_piece(value, op.dim.value, i, len(values)) for i, value in enumerate(values)]


def _all_to_all(op: dm.AllToAllOp, values: Values) -> Values:
    split, concat, n = op.split_dim.value, op.concat_dim.value, len(values)
    return [_concat([_piece(value, split, j, n) for value in values], concat) for j in range(n)]


def _reduce_scatter(op: dm.ReduceScatterOp, values: Values) -> Values:
    reduced = _reduce(op, values)
    return [_piece(reduced, op.dim.value, j, len(values)) for j in range(len(values))]


def _all_reduce(op: dm.AllReduceOp, values: Values) -> Values:
    return [_reduce(op, values)] * len(values)


def _broadcast(op: dm.BroadcastOp, values: Values) -> Values:
    return [values[op.root.value]] * len(values)


def _permute(op: dm.PermuteOp, values: Values) -> Values:
    sources, targets = permute_sources_and_targets(op)
    source_of = dict(zip(targets, sources, strict=True))
    places = range(len(values))
    return [values[source_of[j]] if j in source_of else _zeros(op.result.type) for j in places]


RULES: dict[str, Callable[[Any, Values], Values]] = {
    dm.AllGatherOp.OPERATION_NAME: _all_gather,
    dm.AllReduceOp.OPERATION_NAME: _all_reduce,
    dm.AllSliceOp.OPERATION_NAME: _all_slice,
    dm.AllToAllOp.OPERATION_NAME: _all_to_all,
    dm.BroadcastOp.OPERATION_NAME: _broadcast,
    dm.PermuteOp.OPERATION_NAME: _permute,
    dm.ReduceScatterOp.OPERATION_NAME: _reduce_scatter,
}


def _piece(value: ir.Value, dim: int, index: int, count: int) -> ir.Value:
    """Piece `index` of `count` equal ones along `dim`."""
    whole = ir.RankedTensorType(value.type)
    sizes, offsets = list(whole.shape), [0] * whole.rank
    sizes[dim] //= count
    offsets[dim] = index * sizes[dim]
    piece = ir.RankedTensorType.get(sizes, whole.element_type)
    return tensor.ExtractSliceOp(
        piece, value, [], [], [], static_offsets=offsets, static_sizes=sizes, static_strides=[1] * whole.rank
    ).result


def _concat(pieces: Values, dim: int) -> ir.Value:
    first = ir.RankedTensorType(pieces[0].type)
    shape = list(first.shape)
    shape[dim] *= len(pieces)
    return tensor.ConcatOp(ir.RankedTensorType.get(shape, first.element_type), dim, pieces).result


def _zeros(kind: ir.RankedTensorType) -> ir.Value:
    element = kind.element_type
    zero = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, zero)).result


def _reduce(op: Any, contributions: Values) -> ir.Value:
    """Combines contributions in the order given, in the type `accumulate` of `op`, in one pass over memory."""
    kind = ir.RankedTensorType(contributions[0].type)
    element, accumulate = kind.element_type, op.accumulate.value
    _check_elements(op, element)
    maps = [ir.AffineMap.get_identity(kind.rank)] * (len(contributions) + 1)
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    generic = linalg.GenericOp(
        [kind],
        contributions,
        [tensor.empty(list(kind.shape), element)],
        ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        ir.ArrayAttr.get([parallel] * kind.rank),
    )
    body = generic.regions[0].blocks.append(*[element] * len(maps))
    with ir.InsertionPoint(body):
        total, *others = [_widen(argument, accumulate) for argument in list(body.arguments)[:-1]]
        combine = _COMBINE[op.reduction.value][not isinstance(element, ir.FloatType)]
        for other in others:
            total = combine(total, other).result
        if op.reduction.value == "mean":
            count = arith.ConstantOp(accumulate, float(len(contributions))).result
            total = arith.DivFOp(total, count).result
        linalg.YieldOp([_narrow(total, element)])
    return generic.results[0]


# For floats and for integers, as IEEE 754-2019 and two's complement have them.
_COMBINE: dict[str, tuple[Any, ...]] = {
    "sum": (arith.AddFOp, arith.AddIOp),
    "mean": (arith.AddFOp,),
    "prod": (arith.MulFOp, arith.MulIOp),
    "min": (arith.MinimumFOp, arith.MinSIOp),
    "max": (arith.MaximumFOp, arith.MaxSIOp),
}


def _check_elements(op: ir.OpView, element: ir.Type) -> None:
    if isinstance(element, ir.FloatType) or (element.is_signless and element.width > 1):
        return
    raise DmcError(op.operation, f"cannot reduce elements of type {element}", "convert them to i32 first")


def _widen(value: ir.Value, to: ir.Type) -> ir.Value:
    if value.type == to:
        return value
    return (arith.ExtFOp if isinstance(to, ir.FloatType) else arith.ExtSIOp)(to, value).result


def _narrow(value: ir.Value, to: ir.Type) -> ir.Value:
    if value.type == to:
        return value
    return (arith.TruncFOp if isinstance(to, ir.FloatType) else arith.TruncIOp)(to, value).result
