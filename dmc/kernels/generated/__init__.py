"""Generated kernels: the body of a `dm.kernel`, outlined by `dm-form-kernels`, becomes Triton source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dmc._mlir import ir
from dmc.kernels.generated.emitter import Unbound
from dmc.kernels.generated.launch import Root
from dmc.kernels.generated.plan import Plan
from dmc.kernels.generated.value import TRITON, Declined
from dmc.kernels.problem import Problem, TensorType
from dmc.kernels.recipe import Recipe, operands, results

__all__ = ["Declined", "Generated", "generate"]


@dataclass(frozen=True)
class Generated:
    """The problem that a region computes, and its recipes, the most promising first, with their labels."""

    problem: Problem
    recipes: tuple[Recipe, ...]
    labels: tuple[str, ...]


def generate(body: Any) -> Generated:
    """The kernels of a function on tensors. Raises Declined for one with unsupported contents."""
    op = body.operation
    name = ir.StringAttr(op.attributes["sym_name"]).value
    block = op.regions[0].blocks[0]
    *_, terminator = block.operations
    given = [_type(argument.type) for argument in block.arguments]
    made = [_type(value.type) for value in terminator.operation.operands]
    problem = Problem(name, tuple(given), tuple(made))
    memory = dict(zip(block.arguments, operands(*range(len(given))), strict=True))
    roots = [Root(*each) for each in zip(terminator.operation.operands, results(*range(len(made))), strict=True)]
    recipes: list[Recipe] = []
    labels: dict[Recipe, str] = {}
    before: list[tuple[Any, ...]] = []
    choices = 1
    while len(recipes) < choices:
        plan = Plan(name, dict(memory), roots, len(recipes))
        try:
            recipes.append(plan.run(before))
            labels.setdefault(recipes[-1], plan.label)
        except Unbound as error:
            if any(value in values for values in before for value in error.values):
                raise Declined("a value that is not available where it is read, though computed before") from error
            before.append(error.values)
            recipes.clear()
            labels.clear()
            continue
        choices = plan.choices
    return Generated(problem, tuple(labels), tuple(labels.values()))


def _type(type_: Any) -> TensorType:
    dtype, shape = str(type_.element_type), tuple(type_.shape)
    if dtype not in TRITON:
        raise Declined(f"elements of type {dtype}")
    if not all(shape):
        raise Declined("an empty tensor")
    return TensorType(dtype, shape)
