"""A minimal GPT: learned positions, layer norm before each block, causal attention, GELU, tied embedding and head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes in elements; `dropout` is the probability of dropping, after each block's two branches."""

    vocabulary: int
    context: int = 128
    width: int = 128
    layers: int = 4
    heads: int = 4
    dropout: float = 0.0


class Attention(nn.Module):
    """Causal self-attention over [batch, length, width]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, length, width] → the same shape."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a four times wider MLP, each behind a layer norm and beside a residual."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.norm2 = nn.LayerNorm(shape.width)
        self.mlp = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width), nn.GELU(), nn.Linear(4 * shape.width, shape.width)
        )
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, length, width] → the same shape."""
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Tokens i64[batch, length ≤ context] → scores f32[batch, length, vocabulary]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self.apply(_initialise)
        self.head.weight = self.token.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """i64[batch, length ≤ context] → f32[batch, length, vocabulary]."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _initialise(module: nn.Module) -> None:
    if not isinstance(module, nn.Linear | nn.Embedding):
        return
    for name, parameter in module.named_parameters():
        if name == "bias":
            nn.init.zeros_(parameter)
        else:
            nn.init.normal_(parameter, std=0.02)
