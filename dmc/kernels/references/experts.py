"""The order of rows by expert, and products of groups of rows."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from dmc.kernels.problem import Problem
from dmc.kernels.references.draws import Draws


def expert_order(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The slots by expert, their places, and where each expert's begin and end, in each part."""
    experts = problem.results[2].shape[1]
    made = [_order(expert, experts) for expert in operands[0]]
    return tuple(torch.stack(each).double() for each in zip(*made, strict=True))


def _order(expert: Tensor, experts: int) -> tuple[Tensor, ...]:
    group = torch.where((expert >= 0) & (expert < experts), expert, experts)
    order = torch.sort(group, stable=True).indices
    counts = torch.bincount(group, minlength=experts + 1)[:experts]
    ends = counts.cumsum(0)
    return order, order.argsort(), ends - counts, ends


def grouped_product(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The rows of each group times its matrix."""
    rows, matrices, begins, ends = operands
    matrices = matrices.transpose(1, 2) if problem.get("turned", False) else matrices
    made = torch.zeros(problem.results[0].shape, dtype=torch.float64, device=rows.device)
    for part, group, begin, end in _groups(begins, ends):
        made[part, begin:end] = rows[part, begin:end].double() @ matrices[group].double()
    return (made,)


def grouped_outer_product(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """For each group the products of its rows, summed."""
    left, right, begins, ends = operands
    made = torch.zeros(problem.results[0].shape, dtype=torch.float64, device=left.device)
    for part, group, begin, end in _groups(begins, ends):
        made[group] += left[part, begin:end].double().t() @ right[part, begin:end].double()
    return (made,)


def _groups(begins: Tensor, ends: Tensor) -> Iterator[tuple[int, int, int, int]]:
    """Part, number and bounds of each group."""
    for part, bounds in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        yield from ((part, group, *each) for group, each in enumerate(zip(*bounds, strict=True)))


def sample_order(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Few experts are frequent, and some slots have none."""
    (expert,) = problem.operands
    drawn = torch.rand(expert.shape, generator=draws.generator, device=draws.generator.device)
    return (draws.filled(expert, (problem.results[2].shape[1] * drawn**1.5 * 1.02).long()),)


def sample_groups(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Groups of the sizes that a router gives without a balance; few rows before the first and behind the last."""
    first, second, begins, ends = problem.operands
    rows, generator = first.shape[1], draws.generator
    weights = torch.rand(ends.shape, generator=generator, device=generator.device) + 0.2
    cuts = (weights.cumsum(1) / weights.sum(1, keepdim=True) * (rows - 2)).long() + 1
    starts = torch.cat([cuts.new_ones([ends.shape[0], 1]), cuts[:, :-1]], 1)
    bounds = draws.filled(begins, starts.clamp(max=rows)), draws.filled(ends, cuts.clamp(max=rows))
    return draws.normal(first), draws.normal(second, second.shape[-1] ** -0.5), *bounds
