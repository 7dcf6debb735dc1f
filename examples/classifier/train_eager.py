"""Trains a text classifier in PyTorch eager; `train.py` is the same, compiled."""

from __future__ import annotations

import torch
from classifier import Batch, Config, accuracy, build, groups, loaders
from transformers import get_linear_schedule_with_warmup


def train(config: Config) -> list[float]:
    """The loss of each step, and at the end of each epoch the accuracy."""
    torch.manual_seed(config.seed)
    model, (batches, test) = build(config), loaders(config)
    optimizer = torch.optim.AdamW(groups(model, config), lr=config.learning_rate)
    steps = config.epochs * len(batches)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=steps // 10, num_training_steps=steps)

    @torch.no_grad()
    def logits(batch: Batch) -> torch.Tensor:
        model.eval()
        found = model(**batch).logits
        model.train()
        return found

    history: list[float] = []
    for _ in range(config.epochs):
        for batch in batches:
            loss = model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            history.append(loss.item())
        history.append(accuracy(logits, test))
        print(history[-1])
    return history
