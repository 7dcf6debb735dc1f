"""A BERT of `transformers` that classifies short texts, and its data: what its training loop needs, in eager and
compiled alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification

Batch = dict[str, torch.Tensor]
PAD = 0


@dataclass(frozen=True)
class Config:
    """Sizes and settings, small enough for a CPU."""

    texts: int = 512
    held_out: int = 128
    length: int = 32
    classes: int = 2
    vocabulary: int = 256
    width: int = 64
    layers: int = 2
    heads: int = 4
    dropout: float = 0.0
    batch_size: int = 16
    epochs: int = 3
    learning_rate: float = 5e-4
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 0


def build(config: Config) -> BertForSequenceClassification:
    """The model, with random weights; `from_pretrained` gives one that was trained on text."""
    own = BertConfig(
        vocab_size=config.vocabulary,
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=4 * config.width,
        max_position_embeddings=config.length,
        hidden_dropout_prob=config.dropout,
        attention_probs_dropout_prob=config.dropout,
    )
    own.num_labels = config.classes
    return BertForSequenceClassification(own).train()


def groups(model: nn.Module, config: Config) -> list[dict[str, Any]]:
    """Matrices decay; biases and norms do not."""
    named = list(model.named_parameters())
    return [
        {"params": [each for _, each in named if each.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [each for _, each in named if each.dim() < 2], "weight_decay": 0.0},
    ]


def loaders(config: Config) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Shuffled texts to train on, and others in order."""
    draw = torch.Generator().manual_seed(config.seed)
    texts = [_text(config, draw) for _ in range(config.texts + config.held_out)]
    # A list is a dataset to PyTorch, though its annotations do not say so.
    train: Any = texts[: config.texts]
    test: Any = texts[config.texts :]
    return (
        DataLoader(train, config.batch_size, shuffle=True, generator=draw, drop_last=True),
        DataLoader(test, config.batch_size, drop_last=True),
    )


def _text(config: Config, draw: torch.Generator) -> Batch:
    """Words of which each class prefers its own, padded."""
    label = torch.randint(config.classes, (), generator=draw)
    count = int(torch.randint(config.length // 4, config.length + 1, (), generator=draw))
    words = torch.randint(1, config.vocabulary // 2, (count,), generator=draw)
    own = torch.rand(count, generator=draw) < 0.2
    words = torch.where(own, config.vocabulary // 2 + label, words)
    padded = nn.functional.pad(words, (0, config.length - count), value=PAD)
    return {"input_ids": padded, "attention_mask": (padded != PAD).long(), "labels": label}


def accuracy(logits: Callable[[Batch], torch.Tensor], test: DataLoader[Any]) -> float:
    """The share of texts that are classified right."""
    right = [(logits(batch).argmax(-1) == batch["labels"]).float().mean().item() for batch in test]
    return sum(right) / len(right)
