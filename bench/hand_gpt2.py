"""GPT-2 as an expert writes it in PyTorch: causal attention without a mask, and a head that is one with its loss.

It has the parameters of GPT-2, with the vocabulary padded to a multiple of 64, and its dropout.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

VOCABULARY = 50304
_CHUNKS = 8


class Block(nn.Module):
    """A layer: attention and MLP, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project, self.attend = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, rows, width]."""
        heads = self.project(self.norms[0](x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads, dropout_p=self.dropout, is_causal=True)
        x = x + F.dropout(self.attend(mixed.transpose(1, 2).flatten(2)), self.dropout)
        inner = F.gelu(self.widen(self.norms[1](x)), approximate="tanh")
        return x + F.dropout(self.narrow(inner), self.dropout)


class HandGpt2(nn.Module):
    """The model; its `forward` takes tokens and labels, and gives the loss."""

    def __init__(self, layers: int, heads: int, length: int = 1024, dropout: float = 0.1) -> None:
        super().__init__()
        width = 64 * heads
        self.dropout = dropout
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads, dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of each token after the first."""
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = F.dropout(self.tokens(input_ids) + self.places(place), self.dropout)
        x = self.norm(self.blocks(x))
        wanted = F.pad(labels[:, 1:], (0, 1), value=-100)
        return _Head.apply(x.flatten(0, 1).bfloat16(), self.tokens.weight, wanted.flatten())


class _Head(torch.autograd.Function):
    """Logits and cross entropy in pieces of the batch, with gradients on the way: all logits are never in memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        narrow, count = weight.bfloat16(), (labels >= 0).sum()
        slopes, gradient = torch.empty_like(x), torch.zeros_like(weight)
        loss = torch.zeros((), device=x.device)
        for rows, own, slope in zip(x.chunk(_CHUNKS), labels.chunk(_CHUNKS), slopes.chunk(_CHUNKS), strict=True):
            piece, change = _loss_and_slope(rows @ narrow.T, own, count)
            loss += piece
            slope.copy_(change @ narrow)
            gradient += (change.T @ rows).float()
        ctx.save_for_backward(slopes, gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor, None]:
        (slope,) = slopes
        x, weight = ctx.saved_tensors
        return x * slope.to(x.dtype), weight * slope, None


@torch.compile
def _loss_and_slope(logits: Tensor, labels: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    wide, counted = logits.float(), labels >= 0
    level = wide.logsumexp(1, keepdim=True)
    picked = wide.gather(1, labels.clamp(min=0)[:, None])
    loss = torch.where(counted, (level - picked)[:, 0], 0.0).sum() / count
    hit = torch.arange(logits.shape[1], device=logits.device) == labels[:, None]
    change = ((wide - level).exp() - hit.float()) * (counted / count)[:, None]
    return loss, change.to(logits.dtype)
