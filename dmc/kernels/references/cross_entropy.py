"""Softmax cross entropy and its gradient; see `dmc.kernels.cross_entropy` for their operands."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from dmc.kernels.problem import Problem
from dmc.kernels.references.draws import Draws


def forward(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """`loss` and `logsumexp` of (logits, target)."""
    logits, target = operands
    wide = logits.double()
    # `torch.logsumexp` is infinite where a logit is, but the softmax of such a row is NaN.
    peak = wide.amax(1, keepdim=True)
    level = (wide - peak).exp_().sum(1).log() + peak.squeeze(1)
    smoothing = problem.number("label_smoothing")
    valid = (target >= 0) & (target < wide.shape[1])
    loss = level - wide.gather(1, torch.where(valid, target, 0).unsqueeze(1)).squeeze(1)
    if smoothing:
        loss = (1.0 - smoothing) * loss + smoothing * (level - wide.mean(1))
    counted = target != _ignored(problem)
    loss = torch.where(counted, torch.where(valid, loss, float("nan")), 0.0)
    return loss.sum(), level


def backward(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The gradient of (dloss, logits, target, logsumexp), padded with zeros if it is wider."""
    dloss, logits, target, level = operands
    smoothing, classes = problem.number("label_smoothing"), logits.shape[1]
    gradient = (logits.double() - level.double().unsqueeze(1)).exp_()
    gradient -= smoothing / classes
    valid = (target >= 0) & (target < classes)
    place = torch.where(valid, target, 0).unsqueeze(1)
    # PyTorch subtracts an infinite gradient from its part that softmax takes.
    own = torch.where(dloss.isinf(), float("nan"), smoothing - 1.0).double()
    gradient.scatter_add_(1, place, torch.where(valid, own, 0.0).unsqueeze(1))
    counted = (target != _ignored(problem)).unsqueeze(1)
    gradient *= torch.where(counted, dloss.double(), 0.0)
    return (pad(gradient, (0, problem.results[-1].shape[1] - classes)),)


def both(problem: Problem, operands: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """`loss`, `logsumexp` and the gradient of (dloss, logits, target)."""
    dloss, logits, target = operands
    loss, level = forward(problem, (logits, target))
    return loss, level, *backward(problem, (dloss, logits, target, level))


def sample(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Random logits and targets, a tenth of which are ignored."""
    logits, target = problem.operands
    index = draws.index(target, 0, logits.shape[1])
    return draws.normal(logits, 2.0), index.masked_fill_(draws.index(target, 0, 10) == 0, _ignored(problem))


def sample_backward(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Random operands of the backward pass, with the results of the forward pass."""
    dloss, logits, target, level = problem.operands
    given = sample(Problem(problem.kind, (logits, target), (), problem.parameters), draws)
    _, levels = forward(problem, given)
    return (draws.normal(dloss, mean=2.0), *given, draws.filled(level, levels))


def sample_both(problem: Problem, draws: Draws) -> tuple[Tensor, ...]:
    """Random operands of both passes in one."""
    dloss, *rest = problem.operands
    return (draws.normal(dloss, mean=2.0), *sample(Problem(problem.kind, tuple(rest), (), problem.parameters), draws))


def _ignored(problem: Problem) -> int:
    return int(problem.get("ignore_index", -100))
