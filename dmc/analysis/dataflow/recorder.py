"""Records a step's dataflow while the compiler takes it from form placed to a plan (`dmc.proof.dataflow`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.dataflow.dataflow import kernel_bodies, step_dataflow
from dmc.errors import DmcError
from dmc.program import Job
from dmc.program.dataflow import Dataflow, Step
from dmc.stages import stages_of

# The points at which a module is recorded, in order: after inlining composites, after upstream's simplification, and
# two forms.
PLACED, OPENED, SIMPLIFIED, SCHEDULED = POINTS = ("placed", "opened", "simplified", "scheduled")


@dataclass
class Recorder:
    """The records so far, by point."""

    steps: dict[str, tuple[Step, ...]] = field(default_factory=dict[str, tuple[Step, ...]])

    def see(self, point: str, module: ir.Module) -> None:
        """Records the module's dataflow; ignores points other than `POINTS`."""
        if point in POINTS:
            with stages_of(module) as stages:
                self.steps[point] = tuple(map(step_dataflow, stages))

    def dataflow(self, planned: ir.Module, job: Job) -> Dataflow:
        """All records, with the kernels of `job`, that of the module in form planned."""
        if missing := [point for point in POINTS if point not in self.steps]:
            fact = f"the step was not recorded at '{missing[0]}'"
            raise DmcError(planned.operation, fact, "run it from form placed to form planned at once")
        (placed,), *others = (self.steps[point] for point in POINTS)
        return Dataflow(placed, *others, kernels=kernel_bodies(planned, job.kernels))
