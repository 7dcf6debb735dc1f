"""dm-verify."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.memory.attributes import ARENAS
from dmc.analysis.memory.contents import check_contents
from dmc.analysis.memory.handles import check_handles
from dmc.analysis.requests.settings import memory_cap_of
from dmc.forms import verify_only_kernels_compute
from dmc.passes.any.verify.dumps import dataflow_of_dumps
from dmc.passes.base import Pass
from dmc.proof import verify
from dmc.step_function import find_step


@dataclass(frozen=True)
class Verify(Pass):
    """Changes nothing; fails, with a counterexample, where the step is not proven safe.

    In form scheduled: every movement is waited for once, and after dm-plan-memory, every operation finds the values it
    reads and does not touch what movements have borrowed. In form planned: the programs of all ranks together match,
    terminate, have no race, and fit into memory (`dmc.proof`). cap: the largest size of a rank's arena on the device,
    in bytes; 0: the module's, or none. dumps: the folder with the dumps of forms placed and scheduled; with it, form
    planned is proven to have their dataflow (V11).
    """

    name = "dm-verify"
    cap: int = 0
    dumps: str = ""

    def run(self, module: ir.Module) -> None:
        """Raises ProofError for the first property that does not hold, and DmcError for a step of another form."""
        if any(isinstance(op, dm.ProgramOp) for op in module.body.operations):
            cap = memory_cap_of(module, self.cap)
            job = job_of(module)
            dataflow = dataflow_of_dumps(Path(self.dumps), module, job) if self.dumps else None
            verify(job, {"device": cap} if cap else None, dataflow=dataflow)
            return
        # In any other form there is nothing to prove, and success would be meaningless.
        verify_only_kernels_compute(module)
        step = find_step(module)
        check_handles(step)
        if ARENAS in step.operation.attributes:
            check_contents(step)
