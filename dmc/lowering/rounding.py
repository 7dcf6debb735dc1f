"""Rounding to bfloat16 that IREE's code for CPUs would leave out."""

from __future__ import annotations

from dmc._mlir import arith, ir
from dmc.walk import walk

_UNORDERED = arith.CmpFPredicate.UNO
_QUIET_NAN = 0x7FC0


def keep_rounding(module: ir.Module) -> None:
    """Writes each cast from f32 to bf16 whose result is read in the same function in integers.

    `truncf x : f32 to bf16` becomes `bitcast (trunci (round (bitcast x)))`: to nearest, ties to even. IREE takes x
    itself for `extf (truncf x)` as soon as it has joined the two, though to round x may be why they are there. What
    goes to memory is rounded in any case.
    """
    for op in [op for op in walk(module.operation) if op.name == "arith.truncf" and _is_narrowing(op) and _is_read(op)]:
        with ir.InsertionPoint(op), op.location:
            rounded = _rounded(op.operands[0])
        op.results[0].replace_all_uses_with(rounded)
        op.erase()


def _is_narrowing(op: ir.Operation) -> bool:
    return (str(op.operands[0].type), str(op.results[0].type)) == ("f32", "bf16")


def _is_read(op: ir.Operation) -> bool:
    """Whether anything but the end of the function reads what is cast."""
    for use in op.results[0].uses:
        if use.owner.name != "linalg.yield" or use.owner.operation.parent is None:
            return True
        readers = use.owner.operation.parent.results[use.operand_number].uses
        if any(reader.owner.name != "func.return" for reader in readers):
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
