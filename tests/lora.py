"""Small models of `transformers` with adapters of `peft`, at random configurations, and batches for them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

peft = pytest.importorskip("peft")

TOKENS, VOCABULARY = 14, 48
Batch = dict[str, Tensor]


def adapted(kind: str, seed: int, **options: Any) -> nn.Module:
    """A model with one or two adapters. options: of `peft.LoraConfig`, beside those that are drawn."""
    draw = random.Random(f"{kind} {seed}")
    torch.manual_seed(seed)
    base, task = _MODELS[kind](draw)
    chosen: dict[str, Any] = {
        "r": draw.choice((2, 4, 8)),
        "lora_alpha": draw.choice((4, 16)),
        "target_modules": "all-linear" if draw.random() < 0.5 else _some_layers(base, draw),
        "use_dora": draw.random() < 0.4,
        "use_rslora": draw.random() < 0.5,
        "bias": draw.choice(("none", "all", "lora_only")),
        "modules_to_save": ["lm_head"] if task == "CAUSAL_LM" and kind != "gpt_neox" and draw.random() < 0.3 else None,
        "task_type": task,
        **options,
    }
    model = peft.get_peft_model(base, peft.LoraConfig(**chosen))
    if draw.random() < 0.5:
        model.add_adapter("other", peft.LoraConfig(**{**chosen, "r": 3, "bias": "none"}))
        model.set_adapter("default")
    for name, tensor in model.named_parameters():
        # As they come, one of the two is zero, and so is the other's gradient.
        if "lora_" in name:
            nn.init.normal_(tensor, std=0.1)
    return model.train()


def batch(kind: str, seed: int) -> Batch:
    """Two rows; of texts, the second is padded."""
    draw = torch.Generator().manual_seed(seed)
    if kind == "vit":
        images = torch.randn(2, 3, 8, 8, generator=draw)
        return {"pixel_values": images, "labels": torch.randint(3, (2,), generator=draw)}
    ids = torch.randint(3, VOCABULARY, (2, TOKENS // 2), generator=draw)
    if kind == "bert":
        return {"input_ids": ids, "labels": torch.randint(2, (2,), generator=draw)}
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask.bool(), ids, -100)}


def _some_layers(model: nn.Module, draw: random.Random) -> list[str]:
    names = sorted({name.rpartition(".")[2] for name, own in model.named_modules() if isinstance(own, nn.Linear)})
    names = [name for name in names if name not in ("lm_head", "embed_out", "classifier")]
    return draw.sample(names, max(1, len(names) // 2))


def _sizes(draw: random.Random) -> dict[str, Any]:
    return {
        "hidden_size": draw.choice((24, 32)),
        "intermediate_size": draw.choice((40, 56)),
        "num_hidden_layers": draw.choice((1, 2)),
        "num_attention_heads": draw.choice((2, 4)),
    }


def _decoder(kind: str) -> Callable[[random.Random], tuple[nn.Module, str]]:
    def make(draw: random.Random) -> tuple[nn.Module, str]:
        sizes = {**_sizes(draw), "vocab_size": VOCABULARY, "max_position_embeddings": 32, "use_cache": False}
        more: dict[str, Any] = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
        if kind != "gpt_neox":
            more = {"num_key_value_heads": draw.choice((1, 2)), "head_dim": 8, "attention_dropout": 0.0}
        if kind in ("mistral", "gemma3_text"):
            more["sliding_window"] = 4
        tokens: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        config = transformers.AutoConfig.for_model(kind, **sizes, **more, **tokens)
        return transformers.AutoModelForCausalLM.from_config(config), "CAUSAL_LM"

    return make


def _bert(draw: random.Random) -> tuple[nn.Module, str]:
    none: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    config = transformers.BertConfig(**_sizes(draw), vocab_size=VOCABULARY, max_position_embeddings=32, **none)
    return transformers.BertForSequenceClassification(config), "SEQ_CLS"


def _vit(draw: random.Random) -> tuple[nn.Module, None]:
    more: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": 3}
    config = transformers.ViTConfig(**_sizes(draw), image_size=8, patch_size=4, **more)
    return transformers.ViTForImageClassification(config), None


def _t5(draw: random.Random) -> tuple[nn.Module, str]:
    sizes: dict[str, Any] = {
        "d_model": draw.choice((24, 32)),
        "d_kv": 8,
        "d_ff": 40,
        "num_layers": 1,
        "num_heads": draw.choice((2, 4)),
    }
    config = transformers.T5Config(**sizes, vocab_size=VOCABULARY, dropout_rate=0.0, use_cache=False)
    config.decoder_start_token_id = 0
    return transformers.T5ForConditionalGeneration(config), "SEQ_2_SEQ_LM"


_MODELS: dict[str, Callable[[random.Random], tuple[nn.Module, str | None]]] = {
    **{kind: _decoder(kind) for kind in ("llama", "qwen3", "gemma3_text", "mistral", "gpt_neox")},
    "bert": _bert,
    "vit": _vit,
    "t5": _t5,
}
KINDS = tuple(_MODELS)

warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
