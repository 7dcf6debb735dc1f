"""dm-recompute."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.requests.keeping import keeping_of
from dmc.passes.base import NESTED, Pass, run_passes
from dmc.passes.scheduled.tensors.recompute.cut import cut_of
from dmc.passes.scheduled.tensors.recompute.readers import give_each_reader_its_own
from dmc.passes.scheduled.tensors.recompute.regions import regions_of
from dmc.passes.scheduled.tensors.recompute.report import print_reasons
from dmc.passes.scheduled.tensors.recompute.rewrite import keep_apart, rewrite
from dmc.passes.scheduled.tensors.recompute.sums import every_second_sum
from dmc.passes.shared.step import Step
from dmc.plans.rules import Offload
from dmc.step_function import find_step


@dataclass(frozen=True)
class Recompute(Pass):
    """Rematerialises cheap values: elementwise casts, arithmetic, comparisons and functions such as tanh.

    1. In the backward pass, instead of keeping them from the forward pass on. `%y = gelu(%x)`, whose backward pass
       reads %x and %y, becomes `%y = gelu(%x); …; %z = gelu(barrier(%x))`, of which it reads %x and %z. What is kept is
       a minimum cut, in bytes, through cheap operations. Products, attention, reductions, draws and movements do not
       run again. It is done where it moves no more bytes than it frees: the kernel of the backward pass that reads %x
       writes %z as well. What the module's `dm.keeping` keeps or computes again stays as it is.
       With `sums`, every second residual sum may be made again, from the one before and what was added to it, where
       that is narrower. Then each reader of either pass makes its own, so that no kernel writes it.
       What it compares or casts and needs in memory for a product as well, it reads behind a barrier: no kernel of the
       forward pass makes that for it.
    2. For each operation that reads them, where that reads no more memory. `%w = extf %x : bf16 to f32`, read by two
       kernels, would be in memory as f32; each reads %x instead. Values that must be in memory anyway, because a matrix
       product, a movement or the caller reads them, are computed once.

    Operations and operands are the same. On CUDA only: a CPU computes more slowly than it reads from its caches.
    sums: as said. reasons: print on stderr what the backward pass could make again, with bytes, and the decision.
    """

    name = "dm-recompute"
    sums: bool = True
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        run_passes(module, ("convert-elementwise-to-linalg",), NESTED)
        function = find_step(module)
        step = Step.of(function)
        words = [word for word in keeping_of(module) if not isinstance(word, Offload)]
        sums = every_second_sum(step) if self.sums else frozenset[ir.Value]()
        found = (cut_of(step, region, sums) for region in regions_of(step, words, sums))
        cuts = [cut for cut in found if cut is not None]
        if self.reasons:
            print_reasons(cuts)
        cuts = [cut for cut in cuts if cut.pays]
        copies = rewrite(step, cuts)
        keep_apart(step, cuts)
        again = [value for value in copies if value in sums]
        give_each_reader_its_own(function.entry_block, {*again, *(copies[value] for value in again)})
