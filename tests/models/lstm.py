"""A two-layer `nn.LSTM` language model."""

from __future__ import annotations

import torch
from torch import nn

from tests.models.case import Case, token_batch, token_loss
from tests.models.recurrent import RecurrentLanguageModel


def build(dropout: float) -> Case:
    """Width 48; batches of 4 × 12 tokens over a vocabulary of 64."""
    torch.manual_seed(0)
    model = RecurrentLanguageModel(nn.LSTM, 64, 48, dropout)
    return Case("lstm", model.train(), token_loss, lambda seed: token_batch(seed, 4, 12, 64))


def build_bench(dropout: float) -> Case:
    """Width 256; batches of 16 × 64 tokens over a vocabulary of 128: the size for the benchmarks."""
    torch.manual_seed(0)
    model = RecurrentLanguageModel(nn.LSTM, 128, 256, dropout)
    return Case("lstm", model.train(), token_loss, lambda seed: token_batch(seed, 16, 64, 128))
