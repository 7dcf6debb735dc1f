"""Operations and function types that depend on the global shape, adapted to one rank's part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod

from dmc._mlir import func, ir
from dmc.analysis.loops.shape_classes import loop_of, loops_with_index
from dmc.analysis.sharding.decisions import Decision
from dmc.dialect.build import i64_array
from dmc.placement.placement import Placement
from dmc.walk import terminator_of, walk

# Returns 0 … size-1 as an i64 tensor in a placement of its one dimension.
Iota = Callable[[int, Placement], ir.Value]


def retype(function: func.FuncOp) -> None:
    """Updates the function's type to the current types of its arguments and results."""
    block = function.entry_block
    types = [argument.type for argument in block.arguments], [value.type for value in terminator_of(block).operands]
    function.operation.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))


def localise(op: ir.Operation, decision: Decision) -> None:
    """Adapts the attributes of a split operation whose operands and results already have local types."""
    if op.name == "tensor.expand_shape":
        op.attributes["static_output_shape"] = i64_array(op.results[0].type.shape)
    if op.name in PLACES:
        loops, split = decision.loops, decision.choice.split
        dims = loops.operands[0] if op.name == "tensor.extract_slice" else loops.results[0]
        assert dims is not None
        scale(op, [prod(split.parts(loop) for loop in each) for each in dims])


# Operations with offsets and sizes in a tensor: a slice's source, the result of a slice or padding.
PLACES = {
    "tensor.extract_slice": ("static_offsets", "static_sizes"),
    "tensor.insert_slice": ("static_offsets", "static_sizes"),
    "tensor.pad": ("static_low", "static_high"),
}


def scale(op: ir.Operation, parts: Sequence[int | Fraction]) -> None:
    """Makes offsets and sizes along a split dimension local: they are divisible, since it is split in blocks."""
    for name in PLACES[op.name]:
        numbers = list(ir.DenseI64ArrayAttr(op.attributes[name]))
        op.attributes[name] = i64_array([number // count for number, count in zip(numbers, parts, strict=True)])


def read_places(op: ir.Operation, decision: Decision, iota: Iota) -> ir.Operation:
    """`linalg.index` of a split loop gives a local index; the global index is read from a tensor instead.

    Returns the resulting operation; its result types are unchanged.
    """
    loops, split = decision.loops.loops, decision.choice.split
    read = [loop for loop in loops_with_index(op) if split.axes[loop]]
    return with_indices(op, {loop: iota(loops[loop].size, split.along(loop)) for loop in read})


def with_indices(op: ir.Operation, places: Mapping[int, ir.Value]) -> ir.Operation:
    """The same `linalg.generic`, which reads the indices of loops from vectors along these. Replaces `op`."""
    for loop, along in places.items():
        op = _with_input(op, along, loop)
        read = op.regions[0].blocks[0].arguments[len(op.operands) - len(op.results) - 1]
        for index in [each for each in walk(op) if loop_of(each) == loop]:
            with index.location, ir.InsertionPoint(index):
                place = ir.Operation.create("arith.index_cast", results=[ir.IndexType.get()], operands=[read])
            index.results[0].replace_all_uses_with(place.results[0])
            index.erase()
    return op


def _with_input(op: ir.Operation, value: ir.Value, loop: int) -> ir.Operation:
    """The same `linalg.generic`, with `value`, which is read along `loop`, as its last input."""
    outputs, maps = len(op.results), list(op.attributes["indexing_maps"])
    inputs = len(op.operands) - outputs
    loops = len(op.attributes["iterator_types"])
    along = ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, [ir.AffineDimExpr.get(loop)]))
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["indexing_maps"] = ir.ArrayAttr.get([*maps[:inputs], along, *maps[inputs:]])
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([inputs + 1, outputs])
    operands = list(op.operands)
    with op.location, ir.InsertionPoint(op):
        new = ir.Operation.create(
            op.name,
            results=[result.type for result in op.results],
            operands=[*operands[:inputs], value, *operands[inputs:]],
            attributes=attributes,
            regions=1,
        )
    block = op.regions[0].blocks[0]
    block.append_to(new.regions[0])
    # Arguments can only be appended: the outputs' follow the new one.
    block.add_argument(value.type.element_type, op.location)
    for _ in range(outputs):
        old = block.arguments[inputs]
        old.replace_all_uses_with(block.add_argument(old.type, op.location))
        block.erase_argument(inputs)
    for before, after in zip(op.results, new.results, strict=True):
        before.replace_all_uses_with(after)
    op.erase()
    return new


def iota_of(block: ir.Block, size: int) -> ir.Value:
    """0 … size-1 as i64, created at the start of `block`."""
    i64, identity = ir.IntegerType.get_signless(64), ir.AffineMap.get_identity(1)
    type_ = ir.RankedTensorType.get([size], i64)
    with ir.InsertionPoint.at_block_begin(block):
        empty = ir.Operation.create("tensor.empty", results=[type_])
    generic = ir.Operation.create(
        "linalg.generic",
        results=[type_],
        operands=[empty.results[0]],
        attributes={
            "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(identity)]),
            "iterator_types": ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 1]),
        },
        regions=1,
        ip=ir.InsertionPoint.after(empty),
    )
    with ir.InsertionPoint(generic.regions[0].blocks.append(i64)):
        dim = ir.IntegerAttr.get(i64, 0)
        place = ir.Operation.create("linalg.index", results=[ir.IndexType.get()], attributes={"dim": dim})
        number = ir.Operation.create("arith.index_cast", results=[i64], operands=[place.results[0]])
        ir.Operation.create("linalg.yield", operands=[number.results[0]])
    return generic.results[0]
