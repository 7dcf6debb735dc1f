"""The gradient of an embedding."""

from __future__ import annotations

import torch
from torch import Tensor

from dmc.kernels.problem import Problem
from dmc.kernels.references.draws import Draws


def embedding_backward(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The gradient of the table: for each row the sum of `dy` over its occurrences."""
    dy, index = operands
    rows, width = problem.results[0].shape
    flat = index.flatten()
    counts = (flat >= 0) & (flat < rows) & (flat != int(problem.get("padding_index", -1)))
    table = torch.zeros(rows, width, dtype=torch.float64, device=dy.device)
    return (table.index_add_(0, flat[counts], dy.reshape(-1, width).double()[counts]),)


def sample(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Indices distributed like words: few are frequent. Some are out of range."""
    dy, index = problem.operands
    rows = problem.results[0].shape[0]
    drawn = torch.rand(index.shape, generator=draws.generator, device=draws.generator.device)
    skewed = (rows ** drawn.double()).long() - 1
    return draws.normal(dy), draws.filled(index, torch.where(drawn < 0.01, rows + 5, skewed))
