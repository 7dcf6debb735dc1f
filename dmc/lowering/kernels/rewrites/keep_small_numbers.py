"""Powers that are subnormal numbers on a CPU, and logarithms of such numbers: IREE's own take them for zero, and for
the smallest normal one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dmc._mlir import arith, ir
from dmc.lowering.kernels.rewrites.constants import constant_of
from dmc.rewriting.passes import Pass
from dmc.walk import walk

_LESS = arith.CmpFPredicate.OLT
# Exponents, and powers of two, by which small numbers are moved among normal ones: exact for all of these.
_STEPS = 32.0


@dataclass(frozen=True)
class _Shift:
    """Of an operand below `limit`, `function(x)` is `function(x · factor + term) · by + plus`."""

    limit: float
    factor: float = 1.0
    term: float = 0.0
    by: float = 1.0
    plus: float = 0.0


_OF_2 = _Shift(-126.0, term=_STEPS, by=2.0**-_STEPS)
_SHIFTS: Mapping[str, _Shift] = {
    "math.exp": _Shift(-87.0, term=_STEPS, by=math.exp(-_STEPS)),
    "math.exp2": _OF_2,
    "math.log": _Shift(2.0**-126, factor=2.0**_STEPS, plus=-_STEPS * math.log(2.0)),
    "math.log2": _Shift(2.0**-126, factor=2.0**_STEPS, plus=-_STEPS),
}


@dataclass(frozen=True)
class KeepSmallNumbers(Pass):
    """Makes exponentials and logarithms in f32 exact for subnormal results and operands.

    `exp x` becomes `exp (x < -87 ? x + 32 : x) · (x < -87 ? e⁻³² : 1)`, and `log x` becomes
    `log (x < 2⁻¹²⁶ ? x · 2³² : x) + (x < 2⁻¹²⁶ ? -32 log 2 : 0)`.
    """

    name = "dm-keep-small-numbers"

    def run(self, module: ir.Module) -> None:
        for op, shift in [(op, _shift_of(op)) for op in walk(module.operation)]:
            if shift is not None:
                _shift(op, shift)


def _shift_of(op: ir.Operation) -> _Shift | None:
    is_power_of_2 = op.name == "math.powf" and constant_of(op.operands[0]) == 2.0
    shift = _OF_2 if is_power_of_2 else _SHIFTS.get(op.name)
    return shift if shift and isinstance(op.results[0].type, ir.F32Type) else None


def _shift(op: ir.Operation, shift: _Shift) -> None:
    place = len(op.operands) - 1
    x, f32 = op.operands[place], op.results[0].type

    def number(value: float) -> ir.Value:
        return arith.constant(f32, value)

    with ir.InsertionPoint(op), op.location:
        is_small = arith.cmpf(_LESS, x, number(shift.limit))
        moved = arith.addf(x, number(shift.term)) if shift.term else arith.mulf(x, number(shift.factor))
        op.operands[place] = arith.select(is_small, moved, x)
    with ir.InsertionPoint.after(op), op.location:
        if shift.plus:
            made = arith.addf(op.results[0], arith.select(is_small, number(shift.plus), number(0.0)))
        else:
            made = arith.mulf(op.results[0], arith.select(is_small, number(shift.by), number(1.0)))
    op.results[0].replace_all_uses_with(made)
    made.owner.operands[0] = op.results[0]
