"""A small language model, and sentences in buckets of similar lengths: what its training loop needs, in eager and
compiled alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

Batch = tuple[torch.Tensor, torch.Tensor]
PAD = -1


@dataclass(frozen=True)
class Config:
    """Sizes and settings. A sentence is padded to the smallest of `lengths` that holds it."""

    sentences: int = 512
    lengths: tuple[int, ...] = (16, 32, 48)
    vocabulary: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 2
    batch_size: int = 8
    epochs: int = 4
    learning_rate: float = 1e-3
    clip: float = 1.0
    seed: int = 0

    def held_out(self) -> Config:
        """The same for other sentences, fewer of them."""
        return replace(self, sentences=self.sentences // 4, seed=self.seed + 1)


class Attention(nn.Module):
    """Causal, with queries, keys and values of one layer each."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(config.width, config.width) for _ in range(4))
        self.heads = config.heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, length, width] → the same shape."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width), nn.GELU(), nn.Linear(4 * config.width, config.width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, length, width] → the same shape."""
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class LanguageModel(nn.Module):
    """Tokens to logits of the next ones, for sentences of any length up to the longest."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.places = nn.Embedding(max(config.lengths), config.width)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.layers)))
        self.norm, self.head = nn.LayerNorm(config.width), nn.Linear(config.width, config.vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """i64[batch, length] → f32[batch, length, vocabulary]."""
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.tokens(x) + self.places(places))))


def loss_of(logits: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The mean over the tokens that are no padding."""
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=PAD)


class Data:
    """Batches of sentences of one bucket each, in random order."""

    def __init__(self, config: Config) -> None:
        self._config, self._draw = config, torch.Generator().manual_seed(config.seed)
        longest = max(config.lengths)
        counts = torch.randint(longest // 4, longest + 1, (config.sentences,), generator=self._draw)
        self._buckets: dict[int, list[torch.Tensor]] = {length: [] for length in config.lengths}
        for count in counts.tolist():
            self._buckets[min(length for length in config.lengths if count <= length)].append(self._sentence(count))

    def batches(self) -> Iterator[Batch]:
        """One epoch: whole batches only."""
        size = self._config.batch_size
        chosen = [
            (length, order[first : first + size])
            for length, sentences in self._buckets.items()
            for order in [torch.randperm(len(sentences), generator=self._draw).tolist()]
            for first in range(0, len(order) - size + 1, size)
        ]
        for place in torch.randperm(len(chosen), generator=self._draw).tolist():
            length, rows = chosen[place]
            yield _padded([self._buckets[length][row] for row in rows], length)

    def _sentence(self, count: int) -> torch.Tensor:
        """One token more than is read: each is the last one plus a step that the sentence keeps."""
        first, step = torch.randint(self._config.vocabulary, (2,), generator=self._draw).tolist()
        return (first + step * torch.arange(count + 1)) % self._config.vocabulary


def _padded(sentences: list[torch.Tensor], length: int) -> Batch:
    def pad(row: torch.Tensor, value: int) -> torch.Tensor:
        return functional.pad(row, (0, length - len(row)), value=value)

    x = torch.stack([pad(sentence[:-1], 0) for sentence in sentences])
    return x, torch.stack([pad(sentence[1:], PAD) for sentence in sentences])


def examples(config: Config) -> list[Batch]:
    """A batch for each bucket."""
    batches = (torch.zeros(config.batch_size, length, dtype=torch.long) for length in config.lengths)
    return [(batch, batch) for batch in batches]
