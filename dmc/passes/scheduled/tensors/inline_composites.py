"""dm-inline-composites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dmc._mlir import func, ir
from dmc.analysis.kernels.problems import problem_of, refusal
from dmc.analysis.requests.verbs import roots_of, verbs_of
from dmc.dialect import CompositeOp, verify_symbols
from dmc.dialect.kinds import traits_of
from dmc.dialect.labels import module_path
from dmc.errors import DmcError, PlanError
from dmc.lowering.composites import call_decomposition
from dmc.passes.base import NESTED, Pass, run_passes
from dmc.passes.shared.report import print_table
from dmc.plans.verbs import Decompose
from dmc.walk import listed


@dataclass(frozen=True)
class InlineComposites(Pass):
    """Replaces each `dm.composite` by the body of its decomposition, unless it stays whole for a kernel.

    `%y = "dm.composite"(%x) {decomposition = @gelu_0, …}` becomes `%y = call @gelu_0(%x)`, which upstream's inliner
    resolves; `symbol-dce` then removes the private functions that nothing calls any more. Linear in the size of the
    result.

    keep_whole: composites worth a kernel of their own (`dmc/composites.py`) stay where an implementation of
    `dmc.kernels` supports them, with their decompositions, which define them, unless the plan has them opened
    (`dm.verbs`). reasons: print on stderr which composites stay, and why the others do not.
    """

    name = "dm-inline-composites"
    keep_whole: bool = False
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a decomposition that is missing, does not match, or is recursive, and PlanError where the
        plan opens what is not whole anyway."""
        verify_symbols(module)
        opening = _Opening(verbs_of(module, Decompose) if self.keep_whole else ())
        why: Counter[tuple[str, str]] = Counter()
        for op in [op for op in listed(module.operation) if op.name == CompositeOp.OPERATION_NAME]:
            reason = opening.why(op.opview) if self.keep_whole else "the target has no kernels for composites"
            why[op.opview.kind.value, reason or "stays"] += 1
            if reason:
                call_decomposition(op.opview)
        opening.check()
        # Canonicalisation is left to the pipeline: here it would hide what this pass does.
        run_passes(module, ("inline{default-pipeline=}", "symbol-dce"), NESTED)
        for op in listed(module.operation):
            if op.name == func.CallOp.OPERATION_NAME:
                callee = op.attributes["callee"]
                raise DmcError(op, f"{callee} cannot be inlined", "a function of a step may not call itself")
        if self.reasons:
            print_table(("composite", "number", "why"), [(kind, why[kind, each], each) for kind, each in sorted(why)])


@dataclass
class _Opening:
    """Which composites are opened by the plan. seen: for each of its verbs, why the composites that it means would not
    stay anyway; "" for one that would."""

    verbs: Sequence[Decompose]
    seen: dict[Decompose, set[str]] = field(default_factory=dict[Decompose, set[str]])

    def why(self, op: CompositeOp) -> str:
        """Why a composite does not stay, or ""."""
        reason = _why_opened(op)
        roots = roots_of(self.verbs, module_path(op.location)) if self.verbs else ()
        meant = [verb for verb, root in zip(self.verbs, roots, strict=True) if root is not None]
        for verb in meant:
            self.seen.setdefault(verb, set()).add(reason)
        return reason or (f"the plan: {meant[-1]}" if meant else "")

    def check(self) -> None:
        """Raises PlanError for a verb without effect on the composites that it means."""
        for verb, reasons in self.seen.items():
            if "" not in reasons:
                fact = f"has no effect: its composites are opened anyway ({'; '.join(sorted(reasons))})"
                raise PlanError(str(verb), fact, "leave it out")


def _why_opened(op: CompositeOp) -> str:
    """Why a composite does not stay, or ""."""
    if not traits_of(op).is_whole:
        return "a part of the kernels around it"
    return refusal(problem_of(op)) or ""
