"""Values with more elements along one dimension: products of padded operands; other values are padded themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.kernels.casts import NARROW, WIDEN, is_cast
from dmc.analysis.kernels.layouts import permutation
from dmc.passes.shared.slices import slice_from
from dmc.walk import is_parallel

MATMUL, TRANSPOSE = "linalg.matmul", "linalg.transpose"


@dataclass(frozen=True)
class Widened:
    """Creates values of which the old ones are slices; each once, right after its operands.

    The additional elements are zero, except those of a product, of which only a slice may be read.
    """

    known: dict[tuple[ir.Value, int], ir.Value] = field(default_factory=dict)

    def of(self, value: ir.Value, dim: int, width: int) -> ir.Value:
        """A value with `width` elements along a dimension; always the same width for the same value."""
        if (value, dim) not in self.known:
            self.known[value, dim] = self._made(value, dim, width)
        return self.known[value, dim]

    def _made(self, value: ir.Value, dim: int, width: int) -> ir.Value:
        if isinstance(value.owner, ir.Block):
            return _padded(value, dim, width)
        op = value.owner.operation
        dims = _operand_dims(op, dim)
        if not dims:
            return _padded(value, dim, width)
        operands = {i: self.of(op.operands[i], own, width) for i, own in dims.items()}
        with ir.InsertionPoint.after(op):
            copy = op.clone()
        for i, operand in operands.items():
            copy.operands[i] = operand
        copy.results[0].set_type(_wide_type(value, dim, width))
        return copy.results[0]


def is_of_product(value: ir.Value) -> bool:
    """Whether a value is a matrix product, or computed elementwise from one and smaller tensors."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name == MATMUL:
        return True
    if not _is_elementwise(op):
        return False
    whole = [operand for operand, each in zip(op.operands, _maps(op), strict=True) if each == _maps(op)[-1]]
    return len(whole) == 2 and is_of_product(whole[0])


def _is_elementwise(op: ir.Operation) -> bool:
    """Whether an operation is elementwise with one result."""
    if op.name != "linalg.generic" or len(op.results) != 1:
        return False
    if not is_parallel(op):
        return False
    if any(view.operation.name == "linalg.index" for view in op.regions[0].blocks[0].operations):
        return False
    maps = _maps(op)
    is_plain = all(isinstance(place, ir.AffineDimExpr) for each in maps for place in each.results)
    return is_plain and maps[-1] == ir.AffineMap.get_identity(maps[-1].n_dims)


def sliced(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    """The first elements of a value, as a tensor of this type."""
    with ir.InsertionPoint.after(value.owner.operation), value.owner.location:
        return slice_from(value, [0] * len(type_.shape), type_)


def _operand_dims(op: ir.Operation, dim: int) -> Mapping[int, int]:
    """The operands, and dimensions, that must be widened for the result to be; none if it is padded itself."""
    match op.name:
        case "linalg.fill":
            return {1: dim}
        case "linalg.transpose":
            return {0: permutation(op)[dim], 1: dim}
        case "linalg.matmul":
            return {dim: dim, 2: dim}
        # A widening cast is fused into the product that reads it; padding is not. A cast that narrows an argument is a
        # kernel in any case, of which padding becomes a part.
        case "linalg.generic" if is_of_product(op.results[0]) or is_cast(op, WIDEN) or _narrows_an_argument(op):
            return {i: places[dim] for i, each in enumerate(_maps(op)) if dim in (places := _places(each))}
        case _:
            return {}


def _narrows_an_argument(op: ir.Operation) -> bool:
    return is_cast(op, NARROW) and isinstance(op.operands[0].owner, ir.Block)


def _places(each: ir.AffineMap) -> dict[int, int]:
    """For each loop, the dimension of the operand that it indexes."""
    return {ir.AffineDimExpr(place).position: i for i, place in enumerate(each.results)}


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]


def _padded(value: ir.Value, dim: int, width: int) -> ir.Value:
    """`value` padded with zeros along a dimension; for an uninitialised tensor, a larger one."""
    type_ = _wide_type(value, dim, width)
    if isinstance(value.owner, ir.Block):
        place, location = ir.InsertionPoint.at_block_begin(value.owner), ir.Location.unknown(value.context)
    else:
        place, location = ir.InsertionPoint.after(value.owner.operation), value.owner.location
    with place, location:
        if not isinstance(value.owner, ir.Block) and value.owner.name == "tensor.empty":
            return ir.Operation.create("tensor.empty", [type_]).results[0]
        return _pad(value, type_)


def _pad(value: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    sizes = list(zip(type_.shape, value.type.shape, strict=True))
    attributes: dict[str, ir.Attribute] = {
        "static_low": ir.DenseI64ArrayAttr.get([0] * len(sizes)),
        "static_high": ir.DenseI64ArrayAttr.get([wide - own for wide, own in sizes]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0]),
    }
    op = ir.Operation.create("tensor.pad", [type_], [value], attributes, regions=1)
    location = op.location
    block = op.regions[0].blocks.append(*[ir.IndexType.get()] * len(sizes), arg_locs=[location] * len(sizes))
    with ir.InsertionPoint(block):
        zero = ir.Operation.create("arith.constant", [type_.element_type], attributes={"value": _zero(type_)})
        ir.Operation.create("tensor.yield", operands=[zero.results[0]])
    return op.results[0]


def _zero(type_: ir.RankedTensorType) -> ir.Attribute:
    return ir.FloatAttr.get(type_.element_type, 0.0)


def _wide_type(value: ir.Value, dim: int, width: int) -> ir.RankedTensorType:
    shape = list(value.type.shape)
    shape[dim] = width
    return ir.RankedTensorType.get(shape, value.type.element_type)
