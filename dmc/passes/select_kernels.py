"""dm-select-kernels."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes.base import Pass
from dmc.step_function import find_step
from dmc.target import target


@dataclass(frozen=True)
class SelectKernels(Pass):
    """Chooses the code that will run each kernel, and states the memory it needs beside its operands.

    `dm.kernel {body = @softmax_0}` becomes `dm.kernel {body = @softmax_0, implementation = "iree", scratch = 33024}`:
    IREE's compiler for `target` says which dispatches it makes of the body and what they hand to each other in memory.
    All bodies are compiled at once, each only once. Where ranks differ, the largest variant counts.
    """

    name = "dm-select-kernels"
    target: str = "cpu"

    def run(self, module: ir.Module) -> None:
        """Raises DmcError, naming the kernel, for a body that IREE does not turn into dispatches."""
        # IREE's compiler takes long to load, and most runs of dmc-opt do without it.
        from dmc.lowering.kernels import compile_kernels

        kernels = [op for op in find_step(module).entry_block.operations if isinstance(op, dm.KernelOp)]
        if not kernels:
            return
        code = compile_kernels(module, [name for op in kernels for name in bodies(op)], target(self.target))
        i64 = ir.IntegerType.get_signless(64)
        for op in kernels:
            scratch = max(code.kernels[name].scratch for name in bodies(op))
            op.operation.attributes["implementation"] = ir.StringAttr.get("iree")
            op.operation.attributes["scratch"] = ir.IntegerAttr.get(i64, scratch)


def bodies(op: dm.KernelOp) -> tuple[str, ...]:
    """The functions that the ranks run, one for each variant."""
    return tuple(name.value for name in op.variants or (op.body,))
