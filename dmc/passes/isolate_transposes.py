"""dm-isolate-transposes."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.lowering.transposes import isolate_transposes
from dmc.passes.base import Pass


@dataclass(frozen=True)
class IsolateTransposes(Pass):
    """Puts a barrier to fusion between a transposed matrix and the product that has it on its right.

    `matmul(x, transpose(w))` becomes `matmul(x, barrier(transpose(w)))`: the transpose is made once. IREE would make
    it a part of the product, whose code for the CPU then reads `w` across its rows for every tile of the result. Meant
    for form lowered on its way to a CPU.
    """

    name = "dm-isolate-transposes"

    def run(self, module: ir.Module) -> None:
        isolate_transposes(module)
