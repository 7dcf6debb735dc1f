"""A mixture of experts with top-2 routing, written with dense masks: every expert sees every token."""

from __future__ import annotations

import torch
from torch import nn

from tests.models.case import Case, token_batch, token_loss


class MixtureOfExperts(nn.Module):
    """Each token's output is the sum of its two best experts' outputs, weighted by their renormalised scores.

    The mask keeps shapes fixed: [tokens, experts] holds a weight for the two chosen experts and zero elsewhere.
    """

    def __init__(self, width: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, length, width] → the same shape."""
        scores = torch.softmax(self.router(x), dim=-1)
        best, chosen = scores.topk(2, dim=-1)
        best = best / best.sum(-1, keepdim=True)
        mask = nn.functional.one_hot(chosen, scores.shape[-1]).to(x.dtype)
        weights = (mask * best.unsqueeze(-1)).sum(-2)
        hidden = nn.functional.silu(torch.einsum("blw,ewh->eblh", x, self.up))
        return torch.einsum("eblh,ehw,ble->blw", hidden, self.down, weights)


class MoeLanguageModel(nn.Module):
    """Embedding, one residual mixture of experts behind a layer norm, head."""

    def __init__(self, vocabulary: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm(width)
        self.experts = MixtureOfExperts(width, 2 * width, experts=4)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """i64[batch, length] → f32[batch, length, vocabulary]."""
        x = self.embedding(tokens)
        return self.head(x + self.dropout(self.experts(self.norm(x))))


def build(dropout: float) -> Case:
    """Width 32, four experts; batches of 4 × 16 tokens over a vocabulary of 64."""
    torch.manual_seed(0)
    model = MoeLanguageModel(64, 32, dropout)
    return Case("moe", model.train(), token_loss, lambda seed: token_batch(seed, 4, 16, 64))
