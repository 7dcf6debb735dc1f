"""A recurrent language model: embedding, two recurrent layers with dropout between them, head."""

from __future__ import annotations

import torch
from torch import nn


class RecurrentLanguageModel(nn.Module):
    """Tokens i64[batch, length] → scores f32[batch, length, vocabulary]; `cell` is nn.LSTM or nn.GRU."""

    def __init__(self, cell: type[nn.LSTM | nn.GRU], vocabulary: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.recurrent = cell(width, width, num_layers=2, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """i64[batch, length] → f32[batch, length, vocabulary]."""
        hidden, _ = self.recurrent(self.embedding(tokens))
        return self.head(self.dropout(hidden))
