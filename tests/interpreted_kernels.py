"""A kernel written by hand, in Triton's interpreter, against its float64 reference."""

from __future__ import annotations

import torch
from hypothesis import Phase, settings
from torch import Tensor

from dmc.kernels.implementation import Candidate, implementation_of
from dmc.kernels.problem import Problem, TensorType
from dmc.kernels.references.draws import Draws
from tests.triton_interpreter import interpret

# Norm of the error ÷ norm of the reference; a narrow result is rounded once, and what it is made of may be, too.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}
# Where the exact gradient is zero, as that of scores of a single column.
FLOOR = 1e-6
SCALAR, SEED = TensorType("f32", ()), TensorType("i64", ())
# A few examples of many shapes: the interpreter is slow.
FEW = settings(max_examples=5, deadline=None, derandomize=True, phases=(Phase.explicit, Phase.generate))


def f32(*shape: int) -> TensorType:
    return TensorType("f32", shape)


def assert_right(wanted: Problem, operands: tuple[Tensor, ...] | None = None, tuned: Candidate | None = None) -> None:
    """Interprets the first candidate and compares every result with the reference: where it is NaN or infinite, too."""
    implementation = implementation_of(wanted)
    operands = implementation.sample(wanted, Draws.of(0)) if operands is None else operands
    recipe = implementation.recipe(wanted, tuned or implementation.candidates(wanted)[0])
    made = interpret(wanted, recipe, operands)
    for result, exact in zip(made, implementation.reference(wanted, operands), strict=True):
        assert result.shape == exact.shape
        finite = exact.isfinite()
        torch.testing.assert_close(result[~finite].double(), exact[~finite], equal_nan=True)
        error = (result[finite].double() - exact[finite]).norm()
        assert error <= TOLERANCE[result.dtype] * exact[finite].norm() + FLOOR, (str(wanted), float(error))
