"""Trains a text classifier, compiled; `train_eager.py` is the same in PyTorch eager."""

from __future__ import annotations

import torch
from classifier import Batch, Config, accuracy, build, groups, loaders
from transformers import get_linear_schedule_with_warmup

import dmc


def train(config: Config) -> list[float]:
    """The loss of each step, and at the end of each epoch the accuracy."""
    torch.manual_seed(config.seed)
    model, (batches, test) = build(config), loaders(config)
    optimizer = torch.optim.AdamW(groups(model, config), lr=config.learning_rate)
    clipped = dmc.optim.FromTorch(optimizer, clip_grad_norm=config.clip)
    example = next(iter(test))
    step = dmc.compile(model, optimizer=clipped, example=example, evaluation=lambda out: (out.loss, out.logits))
    steps = config.epochs * len(batches)
    warmup = {"num_warmup_steps": steps // 10, "num_training_steps": steps}
    scheduler = step.scheduler(get_linear_schedule_with_warmup, **warmup)

    def logits(batch: Batch) -> torch.Tensor:
        return torch.as_tensor(step.evaluate(**batch)[1])

    history: list[float] = []
    for _ in range(config.epochs):
        for batch in batches:
            loss = step(**batch, lr=scheduler)
            scheduler.step()
            history.append(loss.item())
        history.append(accuracy(logits, test))
        print(history[-1])
    return history
