"""T5: encoder and decoder, relative position buckets, cross attention, one embedding for three uses."""

from __future__ import annotations

import torch
import transformers

from tests.models.case import IGNORED, Case, token_batch


def build(dropout: float) -> Case:
    """Two and two layers of width 64; batches of 4 × 16 source and 4 × 12 target tokens, the last two ignored."""
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=128,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        dropout_rate=dropout,
        use_cache=False,
    )
    config.decoder_start_token_id = 0
    return Case("t5", transformers.T5ForConditionalGeneration(config).train(), None, _example)


def _example(seed: int) -> dict[str, torch.Tensor]:
    source, labels = token_batch(seed, 4, 16, 128)
    labels = labels[:, :12].clone()
    labels[:, 10:] = IGNORED
    return {"input_ids": source, "labels": labels}
