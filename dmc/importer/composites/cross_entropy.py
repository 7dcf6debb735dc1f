"""Softmax cross entropy against class indices, with ignored targets and label smoothing (Szegedy et al., 2016)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.importer.composites.base import composite, differentiable


@composite(
    "softmax_cross_entropy(Tensor logits, Tensor target, int ignore_index, float label_smoothing, bool mean)"
    " -> (Tensor loss, Tensor logsumexp, Tensor scale)"
)
def softmax_cross_entropy(
    logits: Tensor, target: Tensor, ignore_index: int, label_smoothing: float, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of `logits` [N, C] against `target` int64 [N], summed or averaged over the targets not ignored.

    Returns the scalar loss (dtype of `logits`), `logsumexp` f32 [N] and `scale` f32 []: 1/count for the mean, else 1.
    A target out of range makes the loss NaN. Computed in f32.
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
    scale = 1.0 / counted.float().sum() if mean else torch.ones([], device=logits.device)
    return (loss.sum() * scale).to(logits.dtype), logsumexp, scale


@composite(
    "softmax_cross_entropy_backward(Tensor dloss, Tensor logits, Tensor target, Tensor logsumexp, Tensor scale,"
    " int ignore_index, float label_smoothing) -> Tensor"
)
def softmax_cross_entropy_backward(
    dloss: Tensor,
    logits: Tensor,
    target: Tensor,
    logsumexp: Tensor,
    scale: Tensor,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """The gradient [N, C] for `logits`: (softmax - target distribution) · dloss · scale, zero for ignored targets."""
    classes = logits.shape[1]
    probability = (logits.float() - logsumexp.unsqueeze(1)).exp()
    hit = torch.arange(classes, device=logits.device) == target.unsqueeze(1)
    wanted = torch.where(hit, 1.0 - label_smoothing + label_smoothing / classes, label_smoothing / classes)
    counted = (target != ignore_index).unsqueeze(1)
    gradient = (probability - wanted) * torch.where(counted, dloss.float() * scale, 0.0)
    return gradient.to(logits.dtype)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, target, ctx.ignore_index, ctx.label_smoothing, _ = inputs
    _, logsumexp, scale = output
    ctx.save_for_backward(logits, target, logsumexp, scale)
    ctx.mark_non_differentiable(logsumexp, scale)


def _backward(ctx: Any, dloss: Tensor, _logsumexp: Tensor, _scale: Tensor) -> tuple[Any, ...]:
    logits, target, logsumexp, scale = ctx.saved_tensors
    gradient = torch.ops.dmc.softmax_cross_entropy_backward(
        dloss, logits, target, logsumexp, scale, ctx.ignore_index, ctx.label_smoothing
    )
    return gradient, None, None, None, None


differentiable("softmax_cross_entropy", _setup, _backward)
