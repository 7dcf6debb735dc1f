"""Powers that overflow on a CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dmc._mlir import arith, ir
from dmc.lowering.kernels.rewrites.constants import constant_of
from dmc.rewriting.passes import Pass
from dmc.walk import walk

# The largest f32 whose power of e, and of 2, is finite.
_OF_E, _OF_2 = 88.72283172607422, 127.99999237060547
_GREATER = arith.CmpFPredicate.OGT


@dataclass(frozen=True)
class OverflowPowers(Pass):
    """Makes what a power in f32 is added to meet infinity where it overflows.

    `exp x` becomes `select (x > 88.7), inf, exp x`. IREE's last step is a product by a power of two, which LLVM fuses
    with a sum: unrounded, it is still finite, and `exp inf - inf` would be -inf. A sum over a dimension, of terms that
    are not negative, is infinite either way.
    """

    name = "dm-overflow-powers"

    def run(self, module: ir.Module) -> None:
        for op, largest in [(op, _largest(op)) for op in walk(module.operation)]:
            if largest is None or not _is_added(op):
                continue
            with ir.InsertionPoint.after(op), op.location:
                f32 = op.results[0].type
                # The exponent is the last operand.
                is_large = arith.cmpf(_GREATER, op.operands[len(op.operands) - 1], arith.constant(f32, largest))
                guarded = arith.select(is_large, arith.constant(f32, math.inf), op.results[0])
            op.results[0].replace_all_uses_with(guarded)
            guarded.owner.operands[2] = op.results[0]


def _largest(op: ir.Operation) -> float | None:
    """The largest exponent of a power of e or 2 for which it is finite."""
    if op.name == "math.powf" and constant_of(op.operands[0]) == 2.0:
        return _OF_2
    return {"math.exp": _OF_E, "math.exp2": _OF_2}.get(op.name)


def _is_added(op: ir.Operation) -> bool:
    if not isinstance(op.results[0].type, ir.F32Type):
        return False
    return not all(_accumulates(use.owner.operation) for use in op.results[0].uses)


def _accumulates(reader: ir.Operation) -> bool:
    """Whether it adds a term to the sum that a loop computes."""
    if reader.name != "arith.addf" or (loop := reader.parent) is None or loop.operation.name != "linalg.generic":
        return False
    inputs = len(loop.operation.operands) - len(loop.operation.results)
    sums = list(loop.operation.regions[0].blocks[0].arguments)[inputs:]
    return any(value in sums for value in reader.operands)
