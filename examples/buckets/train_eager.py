"""Trains a language model on sentences in buckets of lengths in PyTorch eager; `train.py` is the same, compiled."""

from __future__ import annotations

import torch
from buckets import Config, Data, LanguageModel, loss_of


def train(config: Config) -> list[float]:
    """The loss of each step, and at the end of each epoch that of sentences held out."""
    torch.manual_seed(config.seed)
    model, data, test = LanguageModel(config), Data(config), list(Data(config.held_out()).batches())
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate)

    @torch.no_grad()
    def evaluate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        model.eval()
        loss = loss_of(model(x), y)
        model.train()
        return loss

    history: list[float] = []
    for _ in range(config.epochs):
        for x, y in data.batches():
            optimizer.zero_grad()
            loss = loss_of(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
            optimizer.step()
            history.append(loss.item())
        history.append(sum(float(evaluate(x, y)) for x, y in test) / len(test))
        print(history[-1])
    return history
