"""Trains a language model on sentences in buckets of lengths, compiled; `train_eager.py` is its twin in eager."""

from __future__ import annotations

import torch
from buckets import Config, Data, LanguageModel, examples, loss_of

import dmc


def train(config: Config) -> list[float]:
    """The loss of each step, and at the end of each epoch that of sentences held out."""
    torch.manual_seed(config.seed)
    model, data, test = LanguageModel(config), Data(config), list(Data(config.held_out()).batches())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)
    clipped = dmc.optim.FromTorch(optimizer, clip_grad_norm=config.clip)
    step = dmc.compile(model, loss=loss_of, optimizer=clipped, example=examples(config), evaluation=True)

    history: list[float] = []
    for _ in range(config.epochs):
        for x, y in data.batches():
            loss = step(x, y)
            history.append(loss.item())
        history.append(sum(float(step.evaluate(x, y)) for x, y in test) / len(test))
        print(history[-1])
    return history
