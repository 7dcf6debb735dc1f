"""dm-flatten-collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from dmc import dialect as dm
from dmc._mlir import ir, linalg, tensor
from dmc.dialect.labels import label_of, put_label
from dmc.passes.base import Pass
from dmc.passes.shared.starts import IN_TIME
from dmc.walk import listed


@dataclass(frozen=True)
class FlattenCollectives(Pass):
    """Rewrites collectives to act on dimension 0, where each rank's piece is one contiguous range of memory.

    `all_gather(%x: a×b, dim = 1)` over n ranks becomes `transpose(all_gather(1×a×b, dim = 0): n×a×b): a×n×b`, reshaped
    to `a×(n·b)`; a `reduce_scatter` transposes before it, an `all_to_all` before and after. Where all dimensions before
    the one it acts on have size 1, reshapes are enough. The transpositions are computation, to be fused into
    neighbouring kernels. Collectives of whole tensors (all_reduce, broadcast, permute) and `dm.all_slice`, which moves
    nothing, stay.
    """

    name = "dm-flatten-collectives"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError where a rule of the dialect does not hold."""
        dm.verify_symbols(module)
        symbols = dm.Symbols.of(module)
        for op in [op for op in listed(module.operation) if op.name in _RULES]:
            if _dims(op) != {0}:
                _flatten(op, symbols)


def _dims(op: ir.Operation) -> set[int]:
    names = ("dim",) if "dim" in op.attributes else ("split_dim", "concat_dim")
    return {ir.IntegerAttr(op.attributes[name]).value for name in names}


def _flatten(op: ir.Operation, symbols: dm.Symbols) -> None:
    with op.location, ir.InsertionPoint(op):
        made, result = _RULES[op.name](op.opview, symbols.group_size(op.opview.group))
    put_label(made, label_of(op))
    if IN_TIME in op.attributes:
        made.attributes[IN_TIME] = op.attributes[IN_TIME]
    op.results[0].replace_all_uses_with(result)
    op.erase()


def _all_gather(op: dm.AllGatherOp, ranks: int) -> tuple[ir.Operation, ir.Value]:
    dim = op.dim.value
    piece = list(op.input.type.shape)
    gathered = dm.all_gather(
        _reshaped(op.input, [1, *piece]),
        result=_like(op.input, [ranks, *piece]),
        dim=0,
        group=op.group,
        channel=_channel(op),
    )
    return gathered.operation, _reshaped(_moved(gathered.result, 0, dim), op.result.type.shape)


def _reduce_scatter(op: dm.ReduceScatterOp, ranks: int) -> tuple[ir.Operation, ir.Value]:
    pieces = _moved(_split(op.input, op.dim.value, ranks), op.dim.value, 0)
    scattered = dm.reduce_scatter(
        pieces,
        result=_like(pieces, [1, *pieces.type.shape[1:]]),
        dim=0,
        group=op.group,
        reduction=op.reduction.value,
        accumulate=op.accumulate.value,
        channel=_channel(op),
    )
    return scattered.operation, _reshaped(scattered.result, op.result.type.shape)


def _all_to_all(op: dm.AllToAllOp, ranks: int) -> tuple[ir.Operation, ir.Value]:
    pieces = _moved(_split(op.input, op.split_dim.value, ranks), op.split_dim.value, 0)
    exchanged = dm.all_to_all(
        pieces, result=pieces.type, split_dim=0, concat_dim=0, group=op.group, channel=_channel(op)
    )
    return exchanged.operation, _reshaped(_moved(exchanged.result, 0, op.concat_dim.value), op.result.type.shape)


Rule = Callable[..., tuple[ir.Operation, ir.Value]]
_RULES: dict[str, Rule] = {
    dm.AllGatherOp.OPERATION_NAME: _all_gather,
    dm.ReduceScatterOp.OPERATION_NAME: _reduce_scatter,
    dm.AllToAllOp.OPERATION_NAME: _all_to_all,
}


def _channel(op: ir.OpView) -> str | None:
    channel = op.operation.attributes.get("channel")
    return None if channel is None else ir.FlatSymbolRefAttr(channel).value


def _like(value: ir.Value, shape: Sequence[int]) -> ir.Type:
    return ir.RankedTensorType.get(list(shape), value.type.element_type)


def _split(value: ir.Value, dim: int, ranks: int) -> ir.Value:
    """`a×(n·b)` as `a×n×b`: each rank's piece is one index along `dim`."""
    shape = list(value.type.shape)
    return _reshaped(value, [*shape[:dim], ranks, shape[dim] // ranks, *shape[dim + 1 :]])


def _moved(value: ir.Value, source: int, target: int) -> ir.Value:
    """Moves dimension `source` to `target`; a reshape where that moves no element."""
    shape = list(value.type.shape)
    order = [i for i in range(len(shape)) if i != source]
    order.insert(target, source)
    result = [shape[i] for i in order]
    between = shape[min(source, target) : max(source, target) + 1]
    if prod(between) == shape[source]:
        return _reshaped(value, result)
    empty = tensor.empty(result, value.type.element_type)
    return linalg.transpose(value, outs=[empty], permutation=order).results[0]


def _reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The value in another shape: via a flat tensor where one reshape cannot express it."""
    old, new = list(value.type.shape), list(shape)
    if old == new:
        return value
    groups = _groups(old, new)
    if groups is None:
        return _reshaped(_reshaped(value, [prod(old)]), new)
    if len(new) > len(old):
        return tensor.ExpandShapeOp(_like(value, new), value, groups, [], new).result
    return tensor.CollapseShapeOp(_like(value, new), value, groups).result


def _groups(old: Sequence[int], new: Sequence[int]) -> list[list[int]] | None:
    """The groups of dimensions of the longer shape that form one of the shorter; None where neither divides the
    other."""
    short, long = sorted((list(old), list(new)), key=len)
    if not short:
        return []
    groups: list[list[int]] = []
    place = 0
    for size in short:
        group: list[int] = []
        while place < len(long) and (not group or prod(long[i] for i in group) < size):
            group.append(place)
            place += 1
        groups.append(group)
        if prod(long[i] for i in group) != size:
            return None
    # The rest has size 1, or the shapes do not match.
    groups[-1] += range(place, len(long))
    return groups if prod(long[place:]) == 1 and len(short) < len(long) else None
