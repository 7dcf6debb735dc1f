"""BERT-small (4 layers, width 512, 8 heads, vocabulary 30522: 28.8 M parameters), for the benchmarks."""

from __future__ import annotations

import torch
import transformers

from tests.models.case import Case, masked_batch

VOCABULARY = 30522
MASK_TOKEN = 103


def build(dropout: float) -> Case:
    """Batches of 8 × 128 tokens; the model's own loss from labels."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        intermediate_size=2048,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return Case("bert_small", transformers.BertForMaskedLM(config).train(), None, _example)


def _example(seed: int) -> dict[str, torch.Tensor]:
    return masked_batch(seed, 8, 128, VOCABULARY, MASK_TOKEN)
