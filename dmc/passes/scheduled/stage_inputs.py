"""dm-stage-inputs."""

from __future__ import annotations

from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.storage.spaces import stage_inputs
from dmc.passes.base import Pass
from dmc.step_function import find_step


@dataclass(frozen=True)
class StageInputs(Pass):
    """Lets kernels read inputs in memory of the device to which the runtime copies them while the step before runs.

    Controls and the batch get `dm.space = staged`, for a target whose runtime does that. dm-copy-ports copies the
    others in the step.
    """

    name = "dm-stage-inputs"

    def run(self, module: ir.Module) -> None:
        step = find_step(module)
        with step.operation.location:
            stage_inputs(step)
