"""A small image classifier, its data and augmentation: what its training loop needs, in eager and compiled alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Config:
    """Sizes and settings. `images` is not a multiple of `batch_size`: the last batch of an epoch is smaller."""

    images: int = 500
    held_out: int = 100
    size: int = 16
    classes: int = 4
    width: int = 16
    batch_size: int = 32
    epochs: int = 5
    learning_rate: float = 0.05
    seed: int = 0


class Net(nn.Module):
    """Two convolutions with batch normalisation, and a head with dropout."""

    def __init__(self, config: Config, dropout: float = 0.0) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, config.width, 3, padding=1, bias=False),
            nn.BatchNorm2d(config.width),
            nn.ReLU(),
            nn.Conv2d(config.width, config.width, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(config.width),
            nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(config.width, config.classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, 1, size, size] → f32[batch, classes]."""
        return self.head(self.features(x).mean((2, 3)))


def loaders(config: Config) -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Shuffled images to train on, and others in order."""
    draw = torch.Generator().manual_seed(config.seed)
    patterns = torch.randn(config.classes, 1, config.size, config.size, generator=draw)
    count = config.images + config.held_out
    y = torch.randint(config.classes, (count,), generator=draw)
    x = patterns[y] + torch.randn(count, 1, config.size, config.size, generator=draw)
    train, test = (TensorDataset(x[part], y[part]) for part in (slice(config.images), slice(config.images, None)))
    return DataLoader(train, config.batch_size, shuffle=True, generator=draw), DataLoader(test, config.batch_size)


def augmented(x: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """Half of the images mirrored."""
    mirrored = torch.rand(len(x), generator=draw) < 0.5
    return torch.where(mirrored[:, None, None, None], x.flip(-1), x)


def accuracy(right: Callable[[torch.Tensor, torch.Tensor], Any], test: DataLoader[Any]) -> float:
    """The share of images that are classified right; `right` counts those of a batch."""
    counts = [(int(right(x, y)), len(y)) for x, y in test]
    return sum(found for found, _ in counts) / sum(count for _, count in counts)


def examples(config: Config) -> list[Batch]:
    """A batch of the shape of each that the loaders give: whole ones, and the last of either."""
    rows = {config.batch_size, config.images % config.batch_size, config.held_out % config.batch_size} - {0}
    size = (1, config.size, config.size)
    return [(torch.rand(count, *size), torch.zeros(count, dtype=torch.long)) for count in sorted(rows, reverse=True)]
