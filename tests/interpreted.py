"""Recipes in Triton's interpreter, on the CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dmc.kernels.code import function_of
from dmc.kernels.implementation import Candidate, Implementation
from dmc.kernels.problem import Problem, TensorType
from dmc.kernels.recipe import Buffer, Recipe, table_rows
from dmc.kernels.references.draws import empty


def interpret(problem: Problem, recipe: Recipe, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The results of a recipe. Whatever it does not write is NaN, or a large number."""
    results = tuple(_poisoned(type) for type in problem.results)
    memory = {Buffer("operand", index): tensor for index, tensor in enumerate(operands)}
    memory |= {Buffer("result", index): tensor for index, tensor in enumerate(results)}
    memory |= {Buffer("scratch", index): _poisoned(type) for index, type in enumerate(recipe.scratch)}
    addresses = {buffer: tensor.data_ptr() for buffer, tensor in memory.items()}
    for index, table in enumerate(recipe.tables):
        memory[Buffer("table", index)] = torch.tensor(table_rows(table, addresses, problem, recipe))
    for call in recipe.calls:
        function_of(call)[(call.programs,)](*(memory[buffer] for buffer in call.buffers), call.shape)
    return results


def _poisoned(type: TensorType) -> Tensor:
    tensor = empty(type, "cpu")
    return tensor.fill_(float("nan") if tensor.is_floating_point() else 1 << 30)
