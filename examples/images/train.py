"""Trains an image classifier, compiled; `train_eager.py` is the same in PyTorch eager."""

from __future__ import annotations

import torch
from images import Config, Net, accuracy, augmented, examples, loaders
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR

import dmc


def train(config: Config) -> list[float]:
    """The loss of each step, and at the end of each epoch the accuracy."""
    torch.manual_seed(config.seed)
    model, (batches, test), draw = Net(config), loaders(config), torch.Generator().manual_seed(config.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=config.learning_rate, momentum=0.9, weight_decay=1e-4)
    loss_of = functional.cross_entropy
    step = dmc.compile(model, loss=loss_of, optimizer=optimizer, example=examples(config), evaluation=loss_and_right)
    scheduler = step.scheduler(CosineAnnealingLR, T_max=config.epochs)

    def right(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return step.evaluate(x, y)[1]

    history: list[float] = []
    for _ in range(config.epochs):
        for x, y in batches:
            loss = step(augmented(x, draw), y, lr=scheduler)
            history.append(loss.item())
        scheduler.step()
        history.append(accuracy(right, test))
        print(history[-1])
    return history


def loss_and_right(logits: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What an evaluation computes."""
    return functional.cross_entropy(logits, y), (logits.argmax(1) == y).sum()
