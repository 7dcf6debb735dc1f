"""Llama: rotary positions, RMSNorm, gated MLP, and two query heads to each key head."""

from __future__ import annotations

import torch
import transformers

from tests.models.case import Case, token_batch


def build(dropout: float) -> Case:
    """Two layers of width 64; batches of 4 × 16 tokens; the model's own loss from labels. Dropout is on attention."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        attention_dropout=dropout,
        use_cache=False,
    )
    return Case("llama", transformers.LlamaForCausalLM(config).train(), None, _example)


def _example(seed: int) -> dict[str, torch.Tensor]:
    tokens, _ = token_batch(seed, 4, 16, 128)
    return {"input_ids": tokens, "labels": tokens.clone()}
