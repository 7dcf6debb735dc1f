"""dm-inline-composites."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.analysis.kernels.problems import problem_of, refusal
from dmc.dialect import CompositeOp, verify_symbols
from dmc.dialect.kinds import traits_of
from dmc.errors import DmcError
from dmc.lowering.composites import call_decomposition
from dmc.passes.base import NESTED, Pass, run_passes
from dmc.passes.shared.report import print_table
from dmc.walk import listed


@dataclass(frozen=True)
class InlineComposites(Pass):
    """Replaces each `dm.composite` by the body of its decomposition, unless it stays whole for a kernel.

    `%y = "dm.composite"(%x) {decomposition = @gelu_0, …}` becomes `%y = call @gelu_0(%x)`, which upstream's inliner
    resolves; `symbol-dce` then removes the private functions that nothing calls any more. Linear in the size of the
    result.

    keep_whole: composites worth a kernel of their own (`dmc/composites.py`) stay where an implementation of
    `dmc.kernels` supports them, with their decompositions, which define them. reasons: print on stderr which composites
    stay, and why the others do not.
    """

    name = "dm-inline-composites"
    keep_whole: bool = False
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a decomposition that is missing, does not match, or is recursive."""
        verify_symbols(module)
        why: Counter[tuple[str, str]] = Counter()
        for op in [op for op in listed(module.operation) if op.name == CompositeOp.OPERATION_NAME]:
            reason = _why_opened(op.opview) if self.keep_whole else "the target has no kernels for composites"
            why[op.opview.kind.value, reason or "stays"] += 1
            if reason:
                call_decomposition(op.opview)
        # Canonicalisation is left to the pipeline: here it would hide what this pass does.
        run_passes(module, ("inline{default-pipeline=}", "symbol-dce"), NESTED)
        for op in listed(module.operation):
            if op.name == func.CallOp.OPERATION_NAME:
                callee = op.attributes["callee"]
                raise DmcError(op, f"{callee} cannot be inlined", "a function of a step may not call itself")
        if self.reasons:
            print_table(("composite", "number", "why"), [(kind, why[kind, each], each) for kind, each in sorted(why)])


def _why_opened(op: CompositeOp) -> str:
    """Why a composite does not stay, or ""."""
    if not traits_of(op).is_whole:
        return "a part of the kernels around it"
    return refusal(problem_of(op)) or ""
