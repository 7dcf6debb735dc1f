"""The factors of the dimensions of a step's parameters."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.analysis.loops.factors import Factors as Analysis
from dmc.plans.uneven import Factors
from dmc.step_function import arguments, find_step

_ROLES = ("parameter", "frozen")


def parameter_factors(module: ir.Module) -> dict[str, tuple[Factors, ...]]:
    """By name, of what the step reads, for each dimension: such as heads and their elements, in a layer's columns."""
    step = find_step(module)
    found, values = Analysis(step), step.arguments
    return {
        port.name: tuple(found.of(values[port.index], dim) for dim in range(values[port.index].type.rank))
        for port in arguments(step)
        if port.role in _ROLES and list(values[port.index].uses)
    }
