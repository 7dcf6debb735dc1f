"""What the passes of each stage of a step cost, by estimates for their operations."""

from __future__ import annotations

from dmc.analysis.times import Times
from dmc.passes.scheduled.split_stages.assignment import Assignment
from dmc.passes.scheduled.split_stages.slices import of_inputs
from dmc.schedules import Costs

# Of a message.
_MESSAGE_NS = 1e4


def costs_of_stages(assignment: Assignment, times: Times) -> Costs:
    """Nanoseconds of each stage's passes for a micro-batch, and what it keeps, in proportion to its forward pass."""
    stages = 1 + max(assignment.stages.values())
    forward, inputs, weights = ([0.0] * stages for _ in range(3))
    first = of_inputs(assignment)
    for op in assignment.flow.inside:
        if (stage := assignment.stages.get(op)) is not None:
            own = forward if op not in assignment.backward else inputs if op in first else weights
            own[stage] += times.ns(op)
    return Costs(forward, inputs, weights, _MESSAGE_NS, kept=forward)
