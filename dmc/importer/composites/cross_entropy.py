"""Softmax cross entropy against class indices, with ignored targets and label smoothing (Szegedy et al., 2016)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable


@composite(
    "softmax_cross_entropy(Tensor logits, Tensor target, int ignore_index, float label_smoothing)"
    " -> (Tensor loss, Tensor logsumexp)"
)
def softmax_cross_entropy(
    logits: Tensor, target: Tensor, ignore_index: int, label_smoothing: float
) -> tuple[Tensor, Tensor]:
    """The loss of `logits` [N, C] against `target` int64 [N], summed over the targets not ignored.

    A sum, so that ranks can add their parts; `cross_entropy` divides it for a mean. Returns the scalar loss, f32, and
    `logsumexp`, f32 [N]. A target out of range makes the loss NaN. Computed in f32.
    """
    wide = logits.float()
    peak = wide.amax(1, keepdim=True)
    logsumexp = (wide - peak).exp().sum(1).log() + peak.squeeze(1)
    classes = wide.shape[1]
    counted = target != ignore_index
    hit = torch.arange(classes, device=logits.device) == target.unsqueeze(1)
    picked = torch.where(hit, wide, 0.0).sum(1)
    loss = logsumexp - picked
    if label_smoothing > 0.0:
        smooth = logsumexp - wide.mean(1)
        loss = (1.0 - label_smoothing) * loss + label_smoothing * smooth
    valid = (target >= 0) & (target < classes)
    loss = torch.where(counted, torch.where(valid, loss, float("nan")), 0.0)
    return loss.sum(), logsumexp


@composite(
    "softmax_cross_entropy_backward(Tensor dloss, Tensor logits, Tensor target, Tensor logsumexp, int ignore_index,"
    " float label_smoothing) -> Tensor"
)
def softmax_cross_entropy_backward(
    dloss: Tensor, logits: Tensor, target: Tensor, logsumexp: Tensor, ignore_index: int, label_smoothing: float
) -> Tensor:
    """The gradient [N, C] for `logits`: (softmax - target distribution) · dloss, zero for ignored targets.

    As in PyTorch, an infinite dloss makes that of the target NaN: there it is softmax · dloss - dloss.
    """
    classes = logits.shape[1]
    probability = (logits.float() - logsumexp.unsqueeze(1)).exp()
    hit = torch.arange(classes, device=logits.device) == target.unsqueeze(1)
    rest = label_smoothing / classes
    own = torch.where(dloss.isinf(), float("nan"), 1.0 - label_smoothing + rest)
    wanted = torch.where(hit, own, rest)
    counted = (target != ignore_index).unsqueeze(1)
    gradient = (probability - wanted) * torch.where(counted, dloss, 0.0)
    return gradient.to(logits.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, target, ctx.ignore_index, ctx.label_smoothing = inputs
    _, logsumexp = output
    ctx.save_for_backward(logits, target, logsumexp)
    ctx.mark_non_differentiable(logsumexp)


def _backward(ctx: Any, dloss: Tensor, _logsumexp: Tensor) -> tuple[Any, ...]:
    logits, target, logsumexp = ctx.saved_tensors
    if ctx.label_smoothing > 0.0:
        # Eager adds the gradients of two losses, in which infinities of either sign meet.
        dloss = torch.where(dloss.isinf(), float("nan"), dloss)
    gradient = torch.ops.dmc.softmax_cross_entropy_backward(
        dloss, logits, target, logsumexp, ctx.ignore_index, ctx.label_smoothing
    )
    return gradient, None, None, None


differentiable("softmax_cross_entropy", _setup, _backward)


def cross_entropy(logits: Tensor, target: Tensor, ignore_index: int, label_smoothing: float, mean: bool) -> Tensor:
    """The loss of `logits` [N, C] in their dtype: the composite, or that divided by the targets not ignored."""
    loss = torch.ops.dmc.softmax_cross_entropy(logits, target, ignore_index, label_smoothing)[0]
    if mean:
        loss = loss * (1.0 / (target != ignore_index).float().sum())
    return loss.to(logits.dtype)
