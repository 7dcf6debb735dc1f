"""nanoGPT's model, data and schedule: what its training loop needs, in eager and compiled alike."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Config:
    """The settings of nanoGPT's `train.py`, small enough for a CPU."""

    block_size: int = 64
    vocab_size: int = 128
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 128
    dropout: float = 0.0
    batch_size: int = 12
    gradient_accumulation_steps: int = 4
    learning_rate: float = 1e-3
    min_lr: float = 1e-4
    weight_decay: float = 1e-1
    grad_clip: float = 1.0
    warmup_iters: int = 10
    max_iters: int = 200
    eval_interval: int = 50
    eval_iters: int = 4
    seed: int = 1337
    out: str = "out/nanogpt"
    resume: bool = False


class CausalSelfAttention(nn.Module):
    """Queries, keys and values in one projection."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head, self.n_embd, self.dropout = config.n_head, config.n_embd, config.dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[B, T, C] → the same shape."""
        batch, length, width = x.size()
        heads = (
            each.view(batch, length, self.n_head, width // self.n_head)
            for each in self.c_attn(x).split(self.n_embd, dim=2)
        )
        q, k, v = (each.transpose(1, 2) for each in heads)
        dropout = self.dropout if self.training else 0
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=dropout, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        return self.resid_dropout(self.c_proj(y))


class Block(nn.Module):
    """Attention and MLP, each behind a layer norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(config.n_embd, bias=False), nn.LayerNorm(config.n_embd, bias=False)
        self.attn = CausalSelfAttention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd, bias=False),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd, bias=False),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[B, T, C] → the same shape."""
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Tokens to (logits, loss)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "drop": nn.Dropout(config.dropout),
                "h": nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                "ln_f": nn.LayerNorm(config.n_embd, bias=False),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight
        self.apply(_init_weights)

    def forward(self, idx: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        """Logits, of the last position alone without targets, and the loss."""
        parts: Any = self.transformer
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = parts["drop"](parts["wte"](idx) + parts["wpe"](pos))
        for block in parts["h"]:
            x = block(x)
        x = parts["ln_f"](x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        return logits, functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    def configure_optimizers(self, config: Config) -> torch.optim.Optimizer:
        """AdamW with two groups: matrices decay, vectors do not."""
        params = [p for p in self.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        fused = "fused" in inspect.signature(torch.optim.AdamW).parameters and torch.cuda.is_available()
        return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95), fused=fused)


def _init_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, mean=0.0, std=0.02)


class Data:
    """Random windows of a text, drawn in order."""

    def __init__(self, text: torch.Tensor, config: Config) -> None:
        n = int(0.9 * len(text))
        self._parts, self._config = {"train": text[:n], "val": text[n:]}, config
        self._draw = torch.Generator().manual_seed(config.seed)

    def get_batch(self, split: str, count: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """So many batches of windows as one, and the same one character on."""
        data, length = self._parts[split], self._config.block_size
        ix = torch.randint(len(data) - length, (count * self._config.batch_size,), generator=self._draw)
        x = torch.stack([data[i : i + length] for i in ix])
        y = torch.stack([data[i + 1 : i + 1 + length] for i in ix])
        return x, y


def get_lr(it: int, config: Config) -> float:
    """Linear warm-up, then a cosine down to the least rate."""
    if it < config.warmup_iters:
        return config.learning_rate * (it + 1) / (config.warmup_iters + 1)
    ratio = (it - config.warmup_iters) / max(1, config.max_iters - config.warmup_iters)
    coefficient = 0.5 * (1.0 + math.cos(math.pi * min(1.0, ratio)))
    return config.min_lr + coefficient * (config.learning_rate - config.min_lr)


def estimate_loss(
    evaluate: Callable[[torch.Tensor, torch.Tensor], Any], data: Data, config: Config, count: int = 1
) -> dict[str, float]:
    """The mean loss of either part; `evaluate` takes so many batches at once."""
    rounds = range(config.eval_iters // count)
    return {
        split: sum(float(evaluate(*data.get_batch(split, count))) for _ in rounds) / len(rounds)
        for split in ("train", "val")
    }
