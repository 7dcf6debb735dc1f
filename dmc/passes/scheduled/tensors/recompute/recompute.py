"""dm-recompute."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.requests.keeping import keeping_of
from dmc.analysis.requests.settings import target_of
from dmc.passes.base import NESTED, Pass, run_passes
from dmc.passes.scheduled.tensors.recompute.cut import cut_of
from dmc.passes.scheduled.tensors.recompute.readers import give_each_reader_its_own
from dmc.passes.scheduled.tensors.recompute.regions import regions_of
from dmc.passes.scheduled.tensors.recompute.report import print_reasons
from dmc.passes.scheduled.tensors.recompute.rewrite import keep_apart, rewrite
from dmc.passes.shared.step import Step
from dmc.plans.rules import Offload
from dmc.step_function import find_step
from dmc.target import targets


@dataclass(frozen=True)
class Recompute(Pass):
    """Rematerialises cheap values: elementwise casts, arithmetic, comparisons and functions such as tanh.

    1. In the backward pass, instead of keeping them from the forward pass on. `%y = gelu(%x)`, whose backward pass
       reads %x and %y, becomes `%y = gelu(%x); …; %z = gelu(barrier(%x))`, of which it reads %x and %z. What is kept is
       a minimum cut, in bytes, through cheap operations. Products, attention, reductions, draws and movements do not
       run again, nor do residual sums. It is done where it moves no more bytes than it frees: the kernel of the
       backward pass that reads %x writes %z as well. What the module's `dm.keeping` keeps or computes again stays as
       it is.
       What it compares or casts and needs in memory for a product as well, it reads behind a barrier: no kernel of the
       forward pass makes that for it.
    2. For each operation that reads them, where that reads no more memory. `%w = extf %x : bf16 to f32`, read by two
       kernels, would be in memory as f32; each reads %x instead. Values that must be in memory anyway, because a matrix
       product, a movement or the caller reads them, are computed once.

    Operations and operands are the same. On CUDA only: a CPU computes more slowly than it reads from its caches.
    target: what the step is compiled for; by default the module's. reasons: print on stderr what the backward pass
    could make again, with bytes, and the decision.
    """

    name = "dm-recompute"
    target: str = ""
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        if not any(each.has_kernels for each in targets(target_of(module, self.target))):
            return
        run_passes(module, ("convert-elementwise-to-linalg",), NESTED)
        function = find_step(module)
        step = Step.of(function)
        words = [word for word in keeping_of(module) if not isinstance(word, Offload)]
        found = (cut_of(step, region) for region in regions_of(step, words))
        cuts = [cut for cut in found if cut is not None]
        if self.reasons:
            print_reasons(cuts)
        cuts = [cut for cut in cuts if cut.pays]
        rewrite(step, cuts)
        keep_apart(step, cuts)
        give_each_reader_its_own(function.entry_block)
