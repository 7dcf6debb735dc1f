"""Values piece by piece: computed from pieces of operands, or slices of what is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc._mlir import ir, linalg
from dmc.walk import walk

# A loop, or the only element of a dimension.
_PLAIN = (ir.AffineDimExpr, ir.AffineConstantExpr)
EMPTY, FILL = "tensor.empty", "linalg.fill"


@dataclass(frozen=True)
class Pieces:
    """The pieces of values with one number, of `count` equal ones. known: by value and dimension."""

    index: int
    count: int
    known: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)

    def of(self, value: ir.Value, dim: int) -> ir.Value:
        """The piece of a value along a dimension; always the same one for the same value."""
        if (value, dim) not in self.known:
            self.known[value, dim] = self._made(value, dim)
        return self.known[value, dim]

    def compute(self, op: ir.Operation, dims: Mapping[int, int], along: Mapping[int, int]) -> ir.Operation:
        """An operation on pieces of the operands in `dims`, along these dimensions; results in `along` are pieces."""
        operands = {i: self.of(op.operands[i], dim) for i, dim in dims.items()}
        copy = op.clone()
        for i, operand in operands.items():
            copy.operands[i] = operand
        for i, dim in along.items():
            copy.results[i].set_type(self._type(op.results[i], dim))
            self.known[op.results[i], dim] = copy.results[i]
        return copy

    def _made(self, value: ir.Value, dim: int) -> ir.Value:
        owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if owner is not None and owner.name == EMPTY:
            return ir.Operation.create(EMPTY, [self._type(value, dim)]).results[0]
        if owner is not None and owner.name == FILL:
            return self.compute(owner, {1: dim}, {0: dim}).results[0]
        type_ = self._type(value, dim)
        rank = len(type_.shape)
        attributes: dict[str, ir.Attribute] = {
            "static_offsets": ir.DenseI64ArrayAttr.get([self.index * type_.shape[i] * (i == dim) for i in range(rank)]),
            "static_sizes": ir.DenseI64ArrayAttr.get(list(type_.shape)),
            "static_strides": ir.DenseI64ArrayAttr.get([1] * rank),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0]),
        }
        return ir.Operation.create("tensor.extract_slice", [type_], [value], attributes).results[0]

    def _type(self, value: ir.Value, dim: int) -> ir.RankedTensorType:
        shape = list(value.type.shape)
        shape[dim] //= self.count
        return ir.RankedTensorType.get(shape, value.type.element_type)


def loop_dims(op: ir.Operation, operand: int, dim: int) -> Mapping[int, int] | None:
    """Which dimension of each operand the loop runs along that runs along `dim` of this one; outs are operands, too.

    None for what is no loop nest of one result, or depends on the number of an iteration, or has such a dimension in
    combination with others.
    """
    is_nest = op.name.startswith("linalg.") and len(op.results) == 1
    if not is_nest or any(each.name == "linalg.index" for each in walk(op)):
        return None
    maps = [ir.AffineMapAttr(each).value for each in linalg.get_indexing_maps(op) or ()]
    if not maps or not all(isinstance(place, _PLAIN) for each in maps for place in each.results):
        return None
    loop = maps[operand].results[dim]
    if not isinstance(loop, ir.AffineDimExpr):
        return None
    found = {i: [own for own, place in enumerate(each.results) if place == loop] for i, each in enumerate(maps)}
    return None if any(len(own) > 1 for own in found.values()) else {i: own[0] for i, own in found.items() if own}


def added(total: ir.Value, value: ir.Value) -> ir.Value:
    """The sum of two tensors of one type, elementwise, at the insertion point."""
    type_ = total.type
    out = ir.Operation.create(EMPTY, [type_]).results[0]
    same = ir.AffineMapAttr.get(ir.AffineMap.get_identity(len(type_.shape)))
    attributes: dict[str, ir.Attribute] = {
        "indexing_maps": ir.ArrayAttr.get([same] * 3),
        "iterator_types": ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * len(type_.shape)),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([2, 1]),
    }
    op = ir.Operation.create("linalg.generic", [type_], [total, value, out], attributes, regions=1)
    block = op.regions[0].blocks.append(*[type_.element_type] * 3, arg_locs=[op.location] * 3)
    with ir.InsertionPoint(block):
        scalar = ir.Operation.create("arith.addf", [type_.element_type], list(block.arguments)[:2]).results[0]
        ir.Operation.create("linalg.yield", operands=[scalar])
    return op.results[0]


def joined(pieces: list[ir.Value], dim: int, type_: ir.Type) -> ir.Value:
    """The value of which these are the pieces along a dimension, at the insertion point."""
    attributes = {"dim": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    return ir.Operation.create("tensor.concat", [type_], pieces, attributes).results[0]
