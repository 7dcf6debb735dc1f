"""dm-separate-concats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from dmc._mlir import ir, linalg, tensor
from dmc.errors import DmcError
from dmc.passes.base import Pass, run_passes
from dmc.walk import walk

# An operand and where it starts along the joined dimension.
Piece = tuple[ir.Value, int]


@dataclass(frozen=True)
class SeparateConcats(Pass):
    """Joins that begin with the same tensor become insertions that begin with different ones.

    Of `concat(%a, %b)` and `concat(%a, %c)` each becomes a chain of `tensor.insert_slice`s, the first from `%b` and the
    second from `%c`. IREE makes such chains of all joins, begins with the first operand, and lets joins share what they
    begin with; in IREE 3.13 one may then be read after the other has overwritten its last part. Meant for form lowered;
    a join that begins with a tensor of its own stays as it is.
    """

    name = "dm-separate-concats"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for joins of which none has a piece to begin with that is not taken by another."""
        alike = [op for paddings in _paddings(module) if len(paddings) > 1 for op in paddings]
        for op in alike:
            _join_padding(op)
        if alike:
            run_passes(module, ("cse",))  # What joins begin with alike shall be one value here, as it will be in IREE.
        groups: dict[tuple[str, int], list[ir.Operation]] = {}
        for op in walk(module.operation):
            if op.name == tensor.ConcatOp.OPERATION_NAME:
                groups.setdefault((str(op.results[0].type), _dim(op)), []).append(op)
        for joins in groups.values():
            _separate(joins)


def _paddings(module: ir.Module) -> list[list[ir.Operation]]:
    """The paddings of one type and value each, where sizes are static and the value stands outside of the padding."""
    groups: dict[tuple[str, ir.Value], list[ir.Operation]] = {}
    for op in walk(module.operation):
        if op.name == tensor.PadOp.OPERATION_NAME and len(op.operands) == 1:
            groups.setdefault((str(op.results[0].type), _value(op)), []).append(op)
    return list(groups.values())


def _value(padding: ir.Operation) -> ir.Value:
    (block,) = padding.regions[0].blocks
    return block.operations[len(block.operations) - 1].operation.operands[0]


def _join_padding(padding: ir.Operation) -> None:
    """Replaces a padding by joins with filled tensors, dimension by dimension."""
    low, high = (list(ir.DenseI64ArrayAttr(padding.attributes[name])) for name in ("static_low", "static_high"))
    padded, value = padding.operands[0], _value(padding)
    with padding.location, ir.InsertionPoint(padding):
        for dim, (before, after) in enumerate(zip(low, high, strict=True)):
            edges = [_filled(padded, dim, size, value) if size else None for size in (before, after)]
            pieces = [piece for piece in (edges[0], padded, edges[1]) if piece is not None]
            padded = _joined(pieces, dim) if len(pieces) > 1 else padded
    padding.results[0].replace_all_uses_with(padded)
    padding.erase()


def _filled(beside: ir.Value, dim: int, size: int, value: ir.Value) -> ir.Value:
    kind = ir.RankedTensorType(beside.type)
    shape = [size if i == dim else extent for i, extent in enumerate(kind.shape)]
    return linalg.fill(value, outs=[tensor.empty(shape, kind.element_type)])


def _joined(pieces: Sequence[ir.Value], dim: int) -> ir.Value:
    kind = ir.RankedTensorType(pieces[0].type)
    shape = list(kind.shape)
    shape[dim] = sum(ir.RankedTensorType(piece.type).shape[dim] for piece in pieces)
    return tensor.ConcatOp(ir.RankedTensorType.get(shape, kind.element_type), dim, pieces).result


def _separate(joins: Sequence[ir.Operation]) -> None:
    first = Counter(join.operands[0] for join in joins)
    count = Counter(piece for join in joins for piece in _pieces(join))
    # What stays begins with its first operand.
    taken = {(join.operands[0], 0) for join in joins if first[join.operands[0]] == 1}
    for join in [join for join in joins if first[join.operands[0]] > 1]:
        free = [piece for piece in _pieces(join) if piece not in taken]
        if not free:
            hint = "join one of them in another order, and reorder the result"
            raise DmcError(join, "is made of the same tensors as other joins, each of which begins with one", hint)
        start = min(free, key=lambda piece: count[piece])
        taken.add(start)
        _insert(join, [start, *(piece for piece in _pieces(join) if piece != start)])


def _insert(join: ir.Operation, order: Sequence[Piece]) -> None:
    """Replaces a join by the insertion of its pieces in this order."""
    kind, dim = ir.RankedTensorType(join.results[0].type), _dim(join)
    with join.location, ir.InsertionPoint(join):
        joined = tensor.empty(list(kind.shape), kind.element_type)
        for value, start in order:
            offsets = [start if i == dim else 0 for i in range(kind.rank)]
            sizes = list(ir.RankedTensorType(value.type).shape)
            joined = tensor.InsertSliceOp(value, joined, [], [], [], offsets, sizes, [1] * kind.rank).result
    join.results[0].replace_all_uses_with(joined)
    join.erase()


def _pieces(join: ir.Operation) -> list[Piece]:
    sizes = [ir.RankedTensorType(operand.type).shape[_dim(join)] for operand in join.operands]
    return list(zip(join.operands, accumulate(sizes, initial=0), strict=False))


def _dim(join: ir.Operation) -> int:
    return ir.IntegerAttr(join.attributes["dim"]).value
