"""dm-keep-rounding."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.lowering.rounding import keep_rounding
from dmc.passes.base import Pass


@dataclass(frozen=True)
class KeepRounding(Pass):
    """Writes casts from f32 to bf16 whose result is read in the same function in integers, which round.

    `extf (truncf x)` becomes `extf (bitcast (trunci (round (bitcast x))))`. IREE's code for CPUs would take x for it.
    Meant for form lowered on its way to a CPU: IREE's code for GPUs rounds each time as it is.
    """

    name = "dm-keep-rounding"

    def run(self, module: ir.Module) -> None:
        keep_rounding(module)
