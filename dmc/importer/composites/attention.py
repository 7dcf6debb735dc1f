"""Scaled dot-product attention (Vaswani et al., 2017) that saves one number per row for its backward pass.

The backward pass recomputes the probabilities from the log-sum-exp of each row, as FlashAttention does (Dao et al.,
2022, algorithm 4), and the dropout mask from its draw: nothing of size rows × columns is saved in between.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dmc.dropout import share_of_attention
from dmc.importer.composites.base import composite, differentiable
from dmc.importer.composites.dropout import keep_scale

_PARAMETERS = "Tensor seed, Tensor draw, float p, float scale, bool causal"


@composite(f"attention(Tensor q, Tensor k, Tensor v, Tensor? bias, {_PARAMETERS}) -> (Tensor out, Tensor logsumexp)")
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    seed: Tensor,
    draw: Tensor,
    p: float,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """`out` [.., M, E] for q [.., M, D], k [.., N, D], v [.., N, E], dtype of `q`; `logsumexp` f32 [.., M, 1].

    `bias` is added to the scores [.., M, N] and broadcasts to them; `causal` lets row i see columns 0..i. Dropout with
    probability `p` acts on the probabilities. A row that sees nothing gives zeros.
    """
    scores = _scores(q, k, bias, scale, causal)
    peak = scores.amax(-1, keepdim=True)
    peak = torch.where(peak == float("-inf"), 0.0, peak)
    weight = (scores - peak).exp()
    total = weight.sum(-1, keepdim=True)
    empty = total == 0.0
    probability = weight / torch.where(empty, 1.0, total)
    if p > 0.0:
        probability = probability * keep_scale(list(probability.shape), seed, draw, share_of_attention(p))
    out = probability.to(q.dtype) @ v
    # Infinity makes the recomputed probabilities of a fully masked row zero.
    logsumexp = torch.where(empty, float("inf"), peak + total.log())
    return out, logsumexp


@composite(
    "attention_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor? bias, Tensor out, Tensor logsumexp,"
    f" {_PARAMETERS}) -> (Tensor dq, Tensor dk, Tensor dv, Tensor dbias)"
)
def attention_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    out: Tensor,
    logsumexp: Tensor,
    seed: Tensor,
    draw: Tensor,
    p: float,
    scale: float,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients for q, k, v in their dtypes and for `bias` in its shape and dtype (f32 scalar 0 without a bias)."""
    probability = (_scores(q, k, bias, scale, causal) - logsumexp).exp()
    dprobability = _wide_product(dout, v.transpose(-1, -2))
    kept = probability
    if p > 0.0:
        keep = keep_scale(list(probability.shape), seed, draw, share_of_attention(p))
        kept = probability * keep
        dprobability = dprobability * keep
    dv = kept.to(v.dtype).transpose(-1, -2) @ dout
    # Rounded gradients of probabilities cancel as exact ones do only if their mean is that of the rounded ones.
    is_rounded = dout.dtype != torch.float32
    mean = probability * dprobability if is_rounded else dout * out
    dscores = probability * (dprobability - mean.sum(-1, keepdim=True))
    dbias = torch.zeros([], device=q.device) if bias is None else dscores.sum_to_size(bias.shape).to(bias.dtype)
    narrow = (dscores * scale).to(q.dtype)
    return narrow @ k, narrow.transpose(-1, -2) @ q, dv, dbias


def _scores(q: Tensor, k: Tensor, bias: Tensor | None, scale: float, causal: bool) -> Tensor:
    scores = _wide_product(q, k.transpose(-1, -2)) * scale
    if bias is not None:
        scores = scores + bias.float()
    if causal:
        row = torch.arange(scores.shape[-2], device=q.device).unsqueeze(1)
        column = torch.arange(scores.shape[-1], device=q.device)
        scores = torch.where(column <= row, scores, float("-inf"))
    return scores


def _wide_product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in f32. In f16, a product of numbers above 255 would be infinite."""
    return a.float() @ b.float() if a.dtype == torch.float16 else (a @ b).float()


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, bias, seed, draw, *ctx.parameters = inputs
    out, logsumexp = output
    ctx.save_for_backward(q, k, v, bias, out, logsumexp, seed, draw)
    ctx.mark_non_differentiable(logsumexp)


def _backward(ctx: Any, dout: Tensor, _logsumexp: Tensor) -> tuple[Any, ...]:
    q, k, v, bias, out, logsumexp, seed, draw = ctx.saved_tensors
    dq, dk, dv, dbias = torch.ops.dmc.attention_backward(
        dout, q, k, v, bias, out, logsumexp, seed, draw, *ctx.parameters
    )
    return dq, dk, dv, (None if bias is None else dbias), None, None, None, None, None


differentiable("attention", _setup, _backward)
