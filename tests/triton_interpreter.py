"""Recipes in Triton's interpreter, on the CPU.

Triton decides when its functions are decorated whether they are interpreted, so this module must be imported before any
of `dmc.kernels.jit`, and a process that interprets kernels cannot compile them.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

# Before the first import of Triton.
os.environ["TRITON_INTERPRET"] = "1"

import torch
from torch import Tensor

from dmc.kernels.code import function_of
from dmc.kernels.problem import Problem, TensorType
from dmc.kernels.recipe import Buffer, Recipe, table_rows
from dmc.kernels.references.draws import empty

_interpreter: Any = importlib.import_module("triton.runtime.interpreter")
_patch_tensor = _interpreter._patch_lang_tensor


def _patch_tensor_for_new_numpy(tensor: Any, scope: Any) -> None:
    """Triton 3.6 takes int() of arrays with one element, which NumPy no longer does."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())


_interpreter._patch_lang_tensor = _patch_tensor_for_new_numpy


def interpret(problem: Problem, recipe: Recipe, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The results of a recipe. Whatever it does not write is NaN, or 85."""
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
    return tensor.fill_(float("nan") if tensor.is_floating_point() else 85)
