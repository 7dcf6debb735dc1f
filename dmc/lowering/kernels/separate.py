"""Kernels whose operations IREE must compile one by one."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.dialect.iree import fusion_barrier
from dmc.step_function import functions

# What costs nothing to repeat, or moves nothing, stays with its readers.
_JOINED = frozenset(
    "arith.constant tensor.empty linalg.fill tensor.expand_shape tensor.collapse_shape tensor.cast tensor.extract "
    "iree_tensor_ext.compute_barrier_start".split()
)
_RETURN, _GENERIC = "func.return", "linalg.generic"


def separate_operations(text: str) -> str:
    """The module with a fusion barrier behind every operation of its functions that computes a tensor for others.

    `exp(sum(x))` becomes `exp(barrier(sum(x)))`, so that each is a dispatch of its own; so does each result of a loop
    with several.
    """
    module = ir.Module.parse(text)
    for function in functions(module):
        for op in [view.operation for view in function.entry_block.operations if _has_independent_results(view)]:
            _split(op)
        for op in [view.operation for view in function.entry_block.operations]:
            if op.name not in _JOINED:
                _put_barriers(op)
    return module.operation.get_asm()


def _has_independent_results(view: ir.OpView) -> bool:
    op = view.operation
    if op.name != _GENERIC or len(op.results) < 2:
        return False
    outputs = list(op.regions[0].blocks[0].arguments)[len(op.operands) - len(op.results) :]
    return not any(list(each.uses) for each in outputs)


def _split(op: ir.Operation) -> None:
    """Replaces a loop by one for each result."""
    for number, result in enumerate(op.results):
        result.replace_all_uses_with(_only(op, number))
    op.erase()


def _only(op: ir.Operation, number: int) -> ir.Value:
    """The same loop, which computes this result alone."""
    inputs, maps = len(op.operands) - len(op.results), list(op.attributes["indexing_maps"])
    kept = [*range(inputs), inputs + number]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["indexing_maps"] = ir.ArrayAttr.get([maps[place] for place in kept])
    attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([inputs, 1])
    with op.location, ir.InsertionPoint(op):
        operands = [op.operands[place] for place in kept]
        new = ir.Operation.create(op.name, [op.results[number].type], operands, attributes, regions=1)
        copy = op.clone()
    block = copy.regions[0].blocks[0]
    block.append_to(new.regions[0])
    for place in reversed(range(inputs, len(op.operands))):
        if place not in kept:
            block.erase_argument(place)
    end = block.operations[len(block.operations) - 1]
    with end.location, ir.InsertionPoint(end):
        ir.Operation.create(end.operation.name, operands=[end.operands[number]])
    end.erase()
    copy.erase()
    return new.results[0]


def _put_barriers(op: ir.Operation) -> None:
    for result in op.results:
        readers = [(use.owner.operation, use.operand_number) for use in result.uses if use.owner.name != _RETURN]
        if not readers or not isinstance(result.type, ir.RankedTensorType):
            continue
        barrier = fusion_barrier(result)
        for reader, number in readers:
            reader.operands[number] = barrier
