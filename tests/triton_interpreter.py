"""Recipes in Triton's interpreter, on the CPU.

Triton decides when its functions are decorated whether they are interpreted, so this module must be imported before any
of `dmc.kernels.jit`, and a process that interprets kernels cannot compile them.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

# Before the first import of Triton.
os.environ["TRITON_INTERPRET"] = "1"

import ml_dtypes
import numpy as np
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

from dmc.kernels.code import arguments_of, function_of
from dmc.kernels.problem import Problem, TensorType
from dmc.kernels.recipe import Buffer, Recipe, View
from dmc.kernels.references.draws import empty
from tests.plain_gluon import load

_interpreter: Any = importlib.import_module("triton.runtime.interpreter")
_patch_tensor = _interpreter._patch_lang_tensor


def _patch_tensor_for_new_numpy(tensor: Any, scope: Any) -> None:
    """Triton 3.6 takes int() of arrays with one element, which NumPy no longer does."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())


_interpreter._patch_lang_tensor = _patch_tensor_for_new_numpy
_convert_float = _interpreter._convert_float


def _convert_float_as_hardware(array: Any, source: Any, target: Any, rounding: Any) -> Any:
    """Triton 3.6 cuts narrow numbers off; hardware rounds them to the nearest, ties to even."""
    types = {"fp32": np.float32, "fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp64": np.float64}
    if source.name not in types or target.name not in types:
        return _convert_float(array, source, target, rounding)
    with np.errstate(all="ignore"):
        made = array.view(types[source.name]).astype(types[target.name])
    return made.view(np.uint16) if made.dtype.itemsize == 2 else made


_interpreter._convert_float = _convert_float_as_hardware


def _dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
    """Triton 3.6 takes the bits of bf16 for integers."""
    factors = [_convert_float_as_hardware(each.data, each.dtype.scalar, d.dtype.scalar, None) for each in (a, b)]
    return _interpreter.TensorHandle(np.matmul(*factors) + d.data, d.dtype.scalar)


_interpreter.InterpreterBuilder.create_dot = _dot


def _fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    """Hardware rounds once; Triton 3.6 rounds the product, too. A product of two f32 is exact in f64."""
    with np.errstate(all="ignore"):
        made = x.data.astype(np.float64) * y.data + z.data
    return _interpreter.TensorHandle(made.astype(x.data.dtype), x.dtype.scalar)


_interpreter.InterpreterBuilder.create_fma = _fma


def _rest_as_hardware(self: Any, x: Any, y: Any) -> Any:
    """NVPTX makes `%` of a division; Triton's interpreter is exact."""
    made = np.where(np.isinf(y.data), x.data, x.data - np.trunc(x.data / y.data) * y.data)
    return _interpreter.TensorHandle(made.astype(x.data.dtype), x.dtype.scalar)


def _exact_rest(x: Any, y: Any) -> Any:
    """libdevice, which the interpreter does not know; a literal may stand for one operand."""
    type = next(each.dtype.scalar for each in (x, y) if isinstance(each, tl.tensor))
    dividend, divisor = (each.handle.data if isinstance(each, tl.tensor) else np.float32(each) for each in (x, y))
    made = np.asarray(np.fmod(dividend, divisor))
    return tl.tensor(_interpreter.TensorHandle(made, type), tl.block_type(type, list(made.shape)))


_interpreter.InterpreterBuilder.create_frem = _rest_as_hardware
libdevice.fmod = _exact_rest
_generic_reduce = _interpreter.ReduceOps.generic_reduce
_UFUNCS = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "maximum_number": np.fmax,
    "minimum_number": np.fmin,
    "multiply": np.multiply,
    "both": np.bitwise_and,
    "either": np.bitwise_or,
}
# Of a number and NaN, hardware takes the number.
_interpreter.InterpreterBuilder.create_maxnumf = lambda self, a, b: self.binary_op(a, b, np.fmax)
_interpreter.InterpreterBuilder.create_minnumf = lambda self, a, b: self.binary_op(a, b, np.fmin)


def _reduce_at_once(self: Any, input: Any) -> Any:
    """By numpy where it knows the function: element by element takes minutes."""
    name = self.combine_fn.fn.__name__
    if name not in _UFUNCS or len(input) != 1:
        return _generic_reduce(self, input)
    made = _UFUNCS[name].reduce(input[0].handle.data, self.axis, keepdims=self.keep_dims)
    return [self.to_tensor(made, input[0].dtype)]


_interpreter.ReduceOps.generic_reduce = _reduce_at_once


# Gluon is not interpreted: what it computes is. Attention's kernels need little of it, products another schedule.
load("shared_memory", "ahead_tiles", "ahead_draws", "ahead_forward", "ahead_rows", "ahead_columns")
sys.modules["dmc.kernels.jit.ping_pong"] = importlib.import_module("tests.plain_ping_pong")


def interpret(
    problem: Problem, recipe: Recipe, operands: tuple[Tensor, ...], in_place: tuple[tuple[int, int], ...] = ()
) -> tuple[Tensor, ...]:
    """The results of a recipe. Whatever it does not write is NaN, or 85.

    in_place: pairs (result, operand) that are the same memory.
    """
    results = [_poisoned(type) for type in problem.results]
    for result, operand in in_place:
        results[result] = operands[operand].view(problem.results[result].shape)
    memory = {Buffer("operand", index): tensor for index, tensor in enumerate(operands)}
    memory |= {Buffer("result", index): tensor for index, tensor in enumerate(results)}
    memory |= {Buffer("scratch", index): _poisoned(type) for index, type in enumerate(recipe.scratch)}
    with np.errstate(all="ignore"):
        for call in recipe.calls:
            given = (_seen(memory[buffer], view) for buffer, view in call.parameters())
            function_of(call)[(call.programs,)](*given, *arguments_of(call))
    return tuple(results)


def _seen(tensor: Tensor, view: View | None) -> Any:
    """What a kernel gets for a buffer."""
    if view is None:
        return tensor
    return TensorDescriptor(tensor, list(view.shape), list(view.strides), list(view.tile))


def _poisoned(type: TensorType) -> Tensor:
    tensor = empty(type, "cpu")
    return tensor.fill_(float("nan") if tensor.is_floating_point() else 85)
