"""Elementwise computation that a GPU repeats faster than it reads the result from memory."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.kernels.bits import unpacked_width
from dmc.walk import is_parallel

# A few dozen instructions for four bytes.
_CHEAP = frozenset(
    "linalg.yield arith.constant arith.extf arith.truncf arith.sitofp arith.uitofp arith.extsi arith.extui "
    "arith.trunci arith.addf arith.subf arith.mulf arith.divf arith.negf arith.maximumf arith.minimumf arith.select "
    "arith.cmpf arith.cmpi arith.andi arith.ori arith.xori "
    "math.exp math.tanh math.erf math.sqrt math.rsqrt math.absf".split()
)


def is_cheap(op: ir.Operation) -> bool:
    """Whether an operation is an elementwise loop that cheaply computes one tensor."""
    if op.name != "linalg.generic" or len(op.results) != 1:
        return False
    if not is_parallel(op):
        return False
    if unpacked_width(op) is not None:
        return True
    return all(view.operation.name in _CHEAP for view in op.regions[0].blocks[0].operations)


def cheap_reads(op: ir.Operation) -> list[ir.Value]:
    """The operands that a cheap operation uses; it ignores the tensor that its result replaces."""
    pairs = zip(op.operands, op.regions[0].blocks[0].arguments, strict=True)
    return [value for value, argument in pairs if list(argument.uses)]
