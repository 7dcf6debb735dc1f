"""A stage's backward pass in two: the gradients of its inputs, for which others wait, and those of its weights."""

from __future__ import annotations

from collections.abc import Iterator

from dmc._mlir import ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.passes.scheduled.split_stages.assignment import Assignment


def of_inputs(assignment: Assignment) -> set[ir.Operation]:
    """The operations of backward passes on which another stage's depend (Qi et al. 2023, arXiv:2401.10241, section 2).

    The others make gradients of weights. A stage that no gradient leaves has none.
    """
    stages, backward = assignment.stages, assignment.backward
    found: set[ir.Operation] = set()
    for op in reversed(assignment.flow.inside):
        if op not in backward:
            continue
        for maker in _makers(assignment, op):
            if maker in backward and (op in found or stages[maker] != stages[op]):
                found.add(maker)
    return found


def _makers(assignment: Assignment, op: ir.Operation) -> Iterator[ir.Operation]:
    for value in outer_reads(op):
        maker = assignment.flow.makers.get(value)
        if maker is not None:
            yield maker
