"""A plan whose pipeline is cut into stages that take about equally long, for one model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dmc._mlir import ir
from dmc.analysis.amounts import LOOP, rounds
from dmc.analysis.times import Times
from dmc.dialect.labels import module_path
from dmc.machine import Machine
from dmc.plans import Plan, with_balanced
from dmc.plans.rules import Pipeline
from dmc.program.labels import BACKWARD, UPDATE
from dmc.step_function import find_step


def with_balanced_cuts(plan: Plan, module: ir.Module, modules: Sequence[str], machine: Machine) -> Plan:
    """`plan` with modules instead of `"balanced"`, for the step in form imported.

    Raises PlanError where the model has fewer blocks than there are cuts.
    """
    if not any(isinstance(rule, Pipeline) and isinstance(rule.cut, str) for rule in plan.rules):
        return plan
    return replace(plan, rules=with_balanced(plan.rules, plan.mesh, modules, times_of(module, modules, machine)))


def times_of(module: ir.Module, modules: Sequence[str], machine: Machine) -> Mapping[str, float]:
    """The estimated nanoseconds of each module's own operations in a step, with gradients and updates, by its path.

    What the model itself computes, and the loss, counts for the module that runs before it, or for the first one.
    """
    times, found, known = Times(module, machine), defaultdict[str, float](float), {path for path in modules if path}
    last, before = "", 0.0
    for op, count in _unrolled(find_step(module).operation):
        path, ns = _owner(module_path(op.location)), count * times.ns(op)
        last = path if path in known else last
        if last:
            found[last] += ns + before
        before = 0.0 if last else before + ns
    return found


def _owner(path: str) -> str:
    """The module whose operation, gradient, or parameter's update a path names."""
    if path.endswith(UPDATE):
        return path.removesuffix(UPDATE).rpartition(".")[0]
    return path.removesuffix(BACKWARD)


def _unrolled(parent: ir.Operation, count: int = 1) -> Iterator[tuple[ir.Operation, int]]:
    """The operations of a function or loop, and how often each runs: of loops their operations."""
    for view in parent.regions[0].blocks[0].operations:
        op = view.operation
        if op.name == LOOP:
            yield from _unrolled(op, count * rounds(op))
        else:
            yield op, count
