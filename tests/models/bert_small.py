"""BERT-small (4 layers, width 512, 8 heads, vocabulary 30522: 28.8 M parameters), for the benchmarks."""

from __future__ import annotations

import torch
import transformers

from tests.models.case import Case, masked_batch

VOCABULARY = 30522
MASK_TOKEN = 103


def build(dropout: float) -> Case:
    """Batches of 8 × 128 tokens; the model's own loss from labels."""
    return _case(VOCABULARY, 512, dropout)


def build_portable(dropout: float) -> Case:
    """The same at width 192 and with a vocabulary of 1024 (2.2 M parameters), for artifacts that travel."""
    return _case(1024, 192, dropout)


def _case(vocabulary: int, width: int, dropout: float) -> Case:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=4,
        num_attention_heads=width // 64,
        intermediate_size=4 * width,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    model = transformers.BertForMaskedLM(config).train()
    return Case("bert_small", model, None, lambda seed: masked_batch(seed, 8, 128, vocabulary, MASK_TOKEN))
