"""The gradient of an embedding."""

from __future__ import annotations

import torch
from torch import Tensor

from dmc.kernels.problem import Problem
from dmc.kernels.references.draws import Draws


def embedding_backward(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The gradient of the table, or of a part of its rows: for each the sum of `dy` over its occurrences."""
    (dy, index), places = problem.apart(operands)
    rows, width = problem.results[0].shape
    flat = index.flatten()
    is_padding = flat == int(problem.get("padding_index", -1))
    if places:
        flat = flat - places[0][0]
    counts = (flat >= 0) & (flat < rows) & ~is_padding
    table = torch.zeros(rows, width, dtype=torch.float64, device=dy.device)
    return (table.index_add_(0, flat[counts], dy.reshape(-1, width).double()[counts]),)


def sample(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Indices distributed like words: few are frequent. Some are out of range."""
    (dy, index), places = problem.apart(problem.operands)
    part = problem.results[0].shape[0]
    rows = int(problem.get("whole_0", part))
    drawn = torch.rand(index.shape, generator=draws.generator, device=draws.generator.device)
    skewed = (rows ** drawn.double()).long() - 1
    # The second part of as many rows.
    own = tuple(draws.filled(each, part + torch.arange(part, device=drawn.device)) for each in places)
    return draws.normal(dy), draws.filled(index, torch.where(drawn < 0.01, rows + 5, skewed)), *own
