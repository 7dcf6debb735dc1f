"""What the passes of each stage of a step cost, by estimates for their operations."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.analysis.times import Times
from dmc.passes.scheduled.split_stages.assignment import Assignment
from dmc.passes.scheduled.split_stages.flow import size_of
from dmc.passes.scheduled.split_stages.slices import of_inputs
from dmc.schedules import Costs

# Of a message: what depends on one comes later than it.
MESSAGE_NS = 1e4


def costs_of_stages(assignment: Assignment, times: Times) -> Costs:
    """Nanoseconds of each stage's passes for a micro-batch, and the bytes that it keeps for its backward pass."""
    stages = 1 + max(assignment.stages.values())
    forward, inputs, weights = ([0.0] * stages for _ in range(3))
    first = of_inputs(assignment)
    for op in assignment.flow.inside:
        if (stage := assignment.stages.get(op)) is not None:
            own = forward if op not in assignment.backward else inputs if op in first else weights
            own[stage] += times.ns(op)
    return Costs(forward, inputs, weights, MESSAGE_NS, kept=_kept(assignment, stages))


def _kept(assignment: Assignment, stages: int) -> list[int]:
    """The bytes that each stage's forward pass leaves to its backward pass, with what it receives."""
    found: list[dict[ir.Value, int]] = [{} for _ in range(stages)]
    for op in assignment.backward:
        for value in outer_reads(op):
            maker = assignment.flow.makers.get(value)
            if maker in assignment.stages and maker not in assignment.backward:
                found[assignment.stages[op]][value] = size_of(value)
    return [sum(sizes.values()) for sizes in found]
