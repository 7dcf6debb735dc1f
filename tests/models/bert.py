"""BERT with a masked language-model head: padding mask, tied decoder, ignored labels."""

from __future__ import annotations

import torch
import transformers

from tests.models.case import Case, masked_batch


def build(dropout: float) -> Case:
    """Two layers of width 64; batches of 4 × 16 tokens; the model's own loss from labels."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=128,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=32,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return Case("bert", transformers.BertForMaskedLM(config).train(), None, _example)


def _example(seed: int) -> dict[str, torch.Tensor]:
    return masked_batch(seed, 4, 16, 128, mask_token=3)
