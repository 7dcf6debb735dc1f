"""Adam and AdamW over many tensors, and sums of squares; see `dmc.kernels.optimizer` for their operands."""

from __future__ import annotations

import torch
from torch import Tensor

from dmc.kernels.problem import Problem
from dmc.kernels.references.draws import DTYPES, Draws


def adam(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """New parameters, first and second moments, and copies."""
    count = int(problem.number("tensors", 1))
    tensors, scalars = operands[: 4 * count], operands[4 * count :]
    updated = [_adam(problem, [tensors[role * count + i].double() for role in range(4)], scalars) for i in range(count)]
    made = [each[role] for role in range(3) for each in updated]
    copies = len(problem.results) > 3 * count
    return tuple(made + made[:count] if copies else made)


def _adam(problem: Problem, tensors: list[Tensor], scalars: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
    old, gradient, average, square = tensors
    clip, lr, apply, correction1, correction2_sqrt = (scalar.double() for scalar in scalars)
    decay, beta1, beta2 = (problem.number(name) for name in ("weight_decay", "beta1", "beta2"))
    if not apply:
        return old, average, square
    decoupled = problem.kind == "optimizer_update_adamw"
    slope = gradient * clip + (0.0 if decoupled else decay) * old
    start = old * (1.0 - lr * decay) if decoupled else old
    average = beta1 * average + (1.0 - beta1) * slope
    square = beta2 * square + (1.0 - beta2) * slope * slope
    spread = square.sqrt() / correction2_sqrt + problem.number("eps")
    return start - lr / correction1 * average / spread, average, square


def sum_of_squares(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The last operand and the sum of the squares of the others."""
    *tensors, total = operands
    return (total.double() + torch.stack([tensor.double().square().sum() for tensor in tensors]).sum(),)


def sample_adam(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """State as after some steps: moments small, the second one positive."""
    count = int(problem.number("tensors", 1))
    types = problem.operands
    parameters = [draws.normal(type, 0.02) for type in types[:count]]
    gradients = [draws.normal(type, 0.01) for type in types[count : 2 * count]]
    averages = [draws.normal(type, 0.01) for type in types[2 * count : 3 * count]]
    squares = [draws.normal(type, 0.01).square_() for type in types[3 * count : 4 * count]]
    clip, lr, apply, correction1, correction2 = types[4 * count :]
    scalars = [draws.filled(type, value) for type, value in ((clip, 0.7), (lr, 1e-3), (apply, 1.0))]
    corrections = [draws.filled(type, value) for type, value in ((correction1, 0.3), (correction2, 0.2))]
    return (*parameters, *gradients, *averages, *squares, *scalars, *corrections)


def sample_squares(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Random tensors."""
    assert all(type.dtype in DTYPES for type in problem.operands)
    return tuple(draws.normal(type, 0.1) for type in problem.operands)
