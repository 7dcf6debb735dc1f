"""Writes down what a step computes while the compiler carries it from form placed to a plan (`dmc.proof.dataflow`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.dataflow.dataflow import kernel_bodies, step_dataflow
from dmc.errors import DmcError
from dmc.program import Job
from dmc.program.dataflow import Dataflow, Step

# The points at which a module is looked at, in order: where composites are gone, where upstream has simplified what is
# left, and two forms.
PLACED, OPENED, SIMPLIFIED, SCHEDULED = POINTS = ("placed", "opened", "simplified", "scheduled")


@dataclass
class Recorder:
    """What was seen so far, by point."""

    steps: dict[str, Step] = field(default_factory=dict[str, Step])

    def see(self, point: str, module: ir.Module) -> None:
        """Writes down what the module computes; other points than `POINTS` are passed by."""
        if point in POINTS:
            self.steps[point] = step_dataflow(module)

    def dataflow(self, planned: ir.Module, job: Job) -> Dataflow:
        """All of it, with the kernels of `job`, which is that of the module in form planned."""
        if missing := [point for point in POINTS if point not in self.steps]:
            fact = f"nobody has seen the step at '{missing[0]}'"
            raise DmcError(planned.operation, fact, "carry it from form placed to form planned in one run")
        return Dataflow(**self.steps, kernels=kernel_bodies(planned, job.kernels))
