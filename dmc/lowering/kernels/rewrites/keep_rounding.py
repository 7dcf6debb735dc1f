"""Rounding to bfloat16 that IREE's code for CPUs would omit; that for GPUs keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import arith, ir, linalg
from dmc.lowering.kernels.rewrites.constants import constant_of
from dmc.rewriting.passes import Pass
from dmc.walk import walk

_UNORDERED = arith.CmpFPredicate.UNO
_QUIET_NAN = 0x7FC0
# Their results need no rounding.
_EXACT = frozenset(
    "arith.constant arith.select arith.bitcast arith.negf arith.maximumf arith.minimumf arith.maxnumf arith.minnumf"
    " math.absf math.copysign math.ceil math.floor math.round math.roundeven math.trunc".split()
)


@dataclass(frozen=True)
class KeepRounding(Pass):
    """Makes every elementwise operation in bf16, and every cast to it, round if the result is read.

    `mulf x, y : bf16` becomes `truncf (mulf (extf x), (extf y))`, and `truncf x : f32 to bf16`, where the same function
    reads it, `bitcast (trunci (round (bitcast x)))`: to nearest, ties to even. IREE folds `extf (truncf x)` to x once
    both are fused, though they may be meant to round x. Values written to memory are rounded in any case. An f64
    constant cast to bf16 becomes a constant in bf16. An integer is converted through f32, as in PyTorch: for processors
    without such an instruction, LLVM would call a function that IREE does not have.
    """

    name = "dm-keep-rounding"

    def run(self, module: ir.Module) -> None:
        for op in [op for op in walk(module.operation) if _is_rounded_constant(op)]:
            _replace(op, _constant(op))
        for op in [op for op in walk(module.operation) if _is_converted_integer(op)]:
            _replace(op, _from_integer(op))
        for op in [op for op in walk(module.operation) if _is_in_bf16(op)]:
            _replace(op, _computed_in_f32(op))
        for op in [op for op in walk(module.operation) if _is_cast(op) and _is_read(op)]:
            with ir.InsertionPoint(op), op.location:
                _replace(op, _rounded(op.operands[0]))


def _is_rounded_constant(op: ir.Operation) -> bool:
    return op.name == "arith.truncf" and str(op.results[0].type) == "bf16" and constant_of(op.operands[0]) is not None


def _constant(op: ir.Operation) -> ir.Value:
    with ir.InsertionPoint(op), op.location:
        return arith.constant(op.results[0].type, constant_of(op.operands[0]))


def _is_converted_integer(op: ir.Operation) -> bool:
    return op.name in ("arith.sitofp", "arith.uitofp") and str(op.results[0].type) == "bf16"


def _from_integer(op: ir.Operation) -> ir.Value:
    """In bits: LLVM would turn the conversion to f32 and its cast into one conversion again."""
    with ir.InsertionPoint(op), op.location:
        wide = ir.Operation.create(op.name, [ir.F32Type.get()], list(op.operands))
        return _rounded(wide.results[0])


def _is_in_bf16(op: ir.Operation) -> bool:
    """Whether it computes only in bf16, in a loop that does not reduce: sums are not rounded at each term."""
    if not op.name.startswith(("arith.", "math.")) or op.name in _EXACT:
        return False
    if any(str(value.type) != "bf16" for value in [*op.operands, *op.results]):
        return False
    parent = op.parent
    return parent is not None and isinstance(parent.opview, linalg.GenericOp) and _is_parallel(parent.opview)


def _is_parallel(loops: linalg.GenericOp) -> bool:
    return all("parallel" in str(kind) for kind in loops.iterator_types)


def _computed_in_f32(op: ir.Operation) -> ir.Value:
    with ir.InsertionPoint(op), op.location:
        wide = [arith.extf(ir.F32Type.get(), operand) for operand in op.operands]
        attributes = {name: op.attributes[name] for name in op.attributes}
        computed = ir.Operation.create(op.name, [ir.F32Type.get()], wide, attributes)
        return arith.truncf(ir.BF16Type.get(), computed.results[0])


def _is_cast(op: ir.Operation) -> bool:
    is_truncation = op.name == "arith.truncf"
    return is_truncation and (str(op.operands[0].type), str(op.results[0].type)) == ("f32", "bf16")


def _is_read(op: ir.Operation) -> bool:
    """Whether the cast has readers other than the function's return."""
    for use in op.results[0].uses:
        loops = use.owner.operation.parent
        if use.owner.name != "linalg.yield" or loops is None:
            return True
        if any(reader.owner.name != "func.return" for reader in loops.results[use.operand_number].uses):
            return True
    return False


def _rounded(x: ir.Value) -> ir.Value:
    word, half = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(16)

    def number(value: int) -> ir.Value:
        return arith.constant(word, value)

    bits = arith.bitcast(word, x)
    is_odd = arith.andi(arith.shrui(bits, number(16)), number(1))
    nearest = arith.addi(arith.addi(bits, number(0x7FFF)), is_odd)
    high = arith.select(arith.cmpf(_UNORDERED, x, x), number(_QUIET_NAN), arith.shrui(nearest, number(16)))
    return arith.bitcast(ir.BF16Type.get(), arith.trunci(half, high))


def _replace(op: ir.Operation, value: ir.Value) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()
