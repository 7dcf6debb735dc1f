"""Trains an image classifier in PyTorch eager; `train.py` is the same, compiled."""

from __future__ import annotations

import torch
from images import Config, Net, accuracy, augmented, loaders
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR


def train(config: Config) -> list[float]:
    """The loss of each step, and at the end of each epoch the accuracy."""
    torch.manual_seed(config.seed)
    model, (batches, test), draw = Net(config), loaders(config), torch.Generator().manual_seed(config.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=config.learning_rate, momentum=0.9, weight_decay=1e-4)
    scheduler = CosineAnnealingLR(optimizer, T_max=config.epochs)

    @torch.no_grad()
    def right(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        model.eval()
        count = (model(x).argmax(1) == y).sum()
        model.train()
        return count

    history: list[float] = []
    for _ in range(config.epochs):
        for x, y in batches:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(augmented(x, draw)), y)
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        scheduler.step()
        history.append(accuracy(right, test))
        print(history[-1])
    return history
