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
_RETURN = "func.return"


def separate_operations(text: str) -> str:
    """The module with a fusion barrier behind every operation of its functions that computes a tensor for others.

    `exp(sum(x))` becomes `exp(barrier(sum(x)))`, so that each is a dispatch of its own.
    """
    module = ir.Module.parse(text)
    for function in functions(module):
        for op in [view.operation for view in function.entry_block.operations]:
            if op.name not in _JOINED:
                _put_barriers(op)
    return module.operation.get_asm()


def _put_barriers(op: ir.Operation) -> None:
    for result in op.results:
        readers = [(use.owner.operation, use.operand_number) for use in result.uses if use.owner.name != _RETURN]
        if not readers or not isinstance(result.type, ir.RankedTensorType):
            continue
        barrier = fusion_barrier(result)
        for reader, number in readers:
            reader.operands[number] = barrier
