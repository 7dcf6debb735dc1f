"""Losses against classes: those that the cross-entropy composite cannot express.

A target out of range, which PyTorch refuses at run time, makes the loss NaN.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer.forward.random_numbers.randomness import Randomness
from dmc.importer.forward.registry import rule, rule_by_name

aten = torch.ops.aten
_MEAN, _SUM = 1, 2


def nll(
    x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1, ignore_index: int = -100
) -> Tensor:
    """The meaning of `aten.nll_loss_nd`: log probabilities [N, C, …] or [C] against classes [N, …] or []."""
    terms, weights = _terms(x, target, weight, ignore_index)
    return _reduced(terms, weights, reduction)


def cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int, smoothing: float
) -> Tensor:
    """The meaning of `aten.cross_entropy_loss` against classes, with label smoothing (Szegedy et al., 2016)."""
    dim = min(1, x.dim() - 1)
    logs = x.log_softmax(dim)
    terms, weights = _terms(logs, target, weight, ignore_index)
    if smoothing > 0.0:
        every = logs if weight is None else logs * _along(weight, x, dim)
        smooth = torch.where(target != ignore_index, -every.sum(dim), 0.0)
        terms = (1.0 - smoothing) * terms + smoothing / x.shape[dim] * smooth
    return _reduced(terms, weights, reduction)


@rule_by_name("torch_nn._linear_cross_entropy_batch_chunked.default")
def _linear_cross_entropy(
    random: Randomness,
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    *options: Any,
) -> tuple[Tensor, ...]:
    """The loss; the rest is eager's own memory for gradients."""
    kind, logits, none = {"mean": _MEAN, "sum": _SUM}[reduction], functional.linear(x, matrix, bias), x.new_zeros([0])
    return cross_entropy(logits, target, weight, kind, ignore_index, label_smoothing), none, none, none


@rule_by_name("torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default")
def _linear_cross_entropies(
    random: Randomness,
    x: Tensor,
    matrix: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    *options: Any,
) -> Tensor:
    return cross_entropy(functional.linear(x, matrix, bias), target, weight, 0, ignore_index, 0.0)


@rule(aten.multi_margin_loss.default)
def _multi_margin(
    random: Randomness,
    x: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    """Each class but the target's own counts that is not below that by the margin or more."""
    rows = x if x.dim() > 1 else x.reshape(1, -1)
    own = target.reshape(-1, 1) == torch.arange(rows.shape[1], device=x.device)
    picked = torch.where(own, rows, 0.0).sum(1, keepdim=True)
    over = _positive(margin - picked + rows)
    active = (over > 0.0) & ~own
    over = over * over if p == 2 else over
    if weight is not None:
        over = over * torch.where(own, weight, 0.0).sum(1, keepdim=True)
    terms = torch.where(own, 0.0, over).sum(1) / rows.shape[1]
    terms = terms + _zero_slopes(rows, active | (own & active.any(1, keepdim=True)))
    known = (target.reshape(-1) >= 0) & (target.reshape(-1) < rows.shape[1])
    terms = torch.where(known, terms, math.nan)
    if reduction == _MEAN:
        return terms.mean()
    return terms.sum() if reduction == _SUM else terms.reshape(target.shape)


@rule(aten.multilabel_margin_loss.default)
def _multilabel_margin(random: Randomness, x: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    """The targets of a row end at the first -1; every other class counts against each of them."""
    rows, labels = (each if each.dim() > 1 else each.reshape(1, -1) for each in (x, target))
    counted = (labels < 0).to(torch.int64).cumsum(1) == 0
    hit = counted.unsqueeze(2) & (labels.unsqueeze(2) == torch.arange(rows.shape[1], device=x.device))
    picked = torch.where(hit, rows.unsqueeze(1), 0.0).sum(2)
    over = _positive(1.0 - picked.unsqueeze(2) + rows.unsqueeze(1))
    against = counted.unsqueeze(2) & ~hit.any(1, keepdim=True)
    active = against & (over > 0.0)
    terms = torch.where(against, over, 0.0).sum((1, 2)) / rows.shape[1]
    terms = terms + _zero_slopes(rows, active.any(1) | (hit & active.any(2, keepdim=True)).any(1))
    if reduction == _MEAN:
        return terms.mean()
    return terms.sum() if reduction == _SUM else terms.reshape(x.shape[:-1])


def _positive(x: Tensor) -> Tensor:
    # At zero the slope of `clamp` would be one.
    return torch.where(x > 0.0, x, 0.0)


def _zero_slopes(rows: Tensor, sloped: Tensor) -> Tensor:
    """Zero for each row, with slopes of zero where there is none. PyTorch multiplies these, too, by a gradient that may
    not be finite."""
    return torch.where(sloped, 0.0, rows.nan_to_num(0.0, 0.0, 0.0) * 0.0).sum(1)


def _terms(x: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Each target's term of the loss and its weight, both zero where it is ignored."""
    dim = min(1, x.dim() - 1)
    counted = target != ignore_index
    known = (target >= 0) & (target < x.shape[dim])
    # Chosen by comparison rather than by index: so is the gradient.
    hit = target.unsqueeze(dim) == _along(torch.arange(x.shape[dim], device=x.device), x, dim)
    picked = torch.where(hit, x, 0.0).sum(dim)
    known_weight = torch.ones([], device=x.device) if weight is None else _along(weight, x, dim)
    # Zero where the target is ignored before anything is multiplied by it, as zero times infinity is none.
    weights = torch.where(counted, torch.where(hit, known_weight.to(x.dtype), 0.0).sum(dim), 0.0)
    terms = torch.where(known, -picked * weights, math.nan)
    return torch.where(counted, terms, 0.0), weights


def _reduced(terms: Tensor, weights: Tensor, reduction: int) -> Tensor:
    if reduction == _MEAN:
        return terms.sum() / weights.sum()
    return terms.sum() if reduction == _SUM else terms


def _along(vector: Tensor, x: Tensor, dim: int) -> Tensor:
    """`vector` along dimension `dim` of `x`."""
    view = [1] * x.dim()
    view[dim] = vector.numel()
    return vector.view(view)
