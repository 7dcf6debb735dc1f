"""dm-inline-composites."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.dialect import CompositeOp, verify_symbols
from dmc.errors import DmcError
from dmc.passes.base import Pass, run_passes
from dmc.walk import walk


@dataclass(frozen=True)
class InlineComposites(Pass):
    """Replaces every `dm.composite` by the body of its decomposition, and removes the decompositions.

    `%y = "dm.composite"(%x) {decomposition = @gelu_0, …}` becomes `%y = call @gelu_0(%x)`, which upstream's inliner
    resolves; `symbol-dce` then removes the private functions that nothing calls any more. Linear in the size of the
    result.
    """

    name = "dm-inline-composites"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a decomposition that is not there, does not fit, or reaches itself."""
        verify_symbols(module)
        for op in walk(module.operation):
            if op.name == CompositeOp.OPERATION_NAME:
                _replace_by_call(op)
        # Canonicalising while inlining is the pipeline's business: it would hide what this pass does.
        run_passes(module, ("inline{default-pipeline=}", "symbol-dce"))
        for op in walk(module.operation):
            if op.name == "func.call":
                callee = op.attributes["callee"]
                raise DmcError(op, f"{callee} cannot be inlined", "a function of a step may not call itself")


def _replace_by_call(op: ir.Operation) -> None:
    call = func.CallOp(
        [value.type for value in op.results],
        op.attributes["decomposition"],
        list(op.operands),
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for old, new in zip(op.results, call.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()
