"""GPT-2: learned positions, layer norm before each block, tied embedding and head."""

from __future__ import annotations

import torch
import transformers

from tests.models.case import Case, token_batch


def build(dropout: float, layers: int = 2, width: int = 64, words: int = 128) -> Case:
    """Layers of this width; batches of 4 × 16 tokens; the model's own loss from labels."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=words,
        n_positions=32,
        n_embd=width,
        n_layer=layers,
        n_head=4,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    return Case("gpt2", transformers.GPT2LMHeadModel(config).train(), None, _example)


def _example(seed: int) -> dict[str, torch.Tensor]:
    tokens, _ = token_batch(seed, 4, 16, 128)
    return {"input_ids": tokens, "labels": tokens.clone()}
