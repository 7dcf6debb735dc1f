"""What the benches of pipelines train, under which schedules, and how long ranks are idle by the formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from dmc.schedules import idle_formula

# Sequences of a micro-batch.
ROWS = 4
# A gradient of a product is two products.
FORWARD, INPUTS, WEIGHTS = 1.0, 1.0, 1.0
# Plans without stages, beside which pipelines are measured.
WHOLE = ("zero2", "tp")
SCHEDULES = {"1f1b": 1, "interleaved": 2, "zb-h1": 1, "zb-v": 2}


def _llama() -> tuple[Any, str, int, int]:
    sizes: dict[str, Any] = {"hidden_size": 2048, "intermediate_size": 5632, "vocab_size": 32000}
    heads: dict[str, Any] = {"num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 22}
    with torch.device("meta"):
        net = LlamaForCausalLM(LlamaConfig(**sizes, **heads, max_position_embeddings=2048, use_cache=False))
    return net, "model.layers", 22, 2048


def _gpt2() -> tuple[Any, str, int, int]:
    # Without dropout, so that all systems compute the same, and with a head of its own, which PyTorch's stages need.
    own: dict[str, Any] = {"tie_word_embeddings": False, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = GPT2Config(n_embd=1024, n_layer=24, n_head=16, use_cache=False, **own)
    with torch.device("meta"):
        return GPT2LMHeadModel(config), "transformer.h", 24, 1024


# Each with the path of its blocks, their number, and the length of a sequence.
MODELS: dict[str, Callable[[], tuple[Any, str, int, int]]] = {"llama_1b": _llama, "gpt2_355m": _gpt2}


def formula_of(schedule: str, ranks: int, microbatches: int) -> float | None:
    """The idle share of a step for equal stages; None where there is no formula."""
    chunks = SCHEDULES[schedule]
    # A step has the work of all micro-batches; stages of a rank share its time.
    idle = idle_formula(schedule, ranks, microbatches, chunks, FORWARD, INPUTS, WEIGHTS)
    return None if idle is None else idle / (idle + microbatches * chunks * (FORWARD + INPUTS + WEIGHTS))


def batch_of(seed: int, microbatches: int, length: int, classes: int) -> dict[str, torch.Tensor]:
    """A global batch."""
    shape = (ROWS * microbatches, length)
    tokens = torch.randint(classes, shape, generator=torch.Generator().manual_seed(seed))
    return {"input_ids": tokens, "labels": tokens.clone()}
