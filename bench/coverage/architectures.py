"""The architectures of `transformers` that have a training loss on text or images, from tiny configurations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from bench.coverage.steps import Sample

# The first head that a model type has is taken.
_HEADS = ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_CLASSIFICATION")
# More parameters than this say that a configuration has its sizes under names of its own.
_MOST = 4_000_000
_VOCABULARY, _LENGTH, _IMAGE, _WIDTH = 99, 12, 32, 32
# What a configuration calls its sizes, where it has them.
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "emb_dim"), _WIDTH),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_inner"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "n_inner", "ffn_hidden_size"), 48),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_decoder_layers", "num_encoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("decoder_attention_heads", "num_key_value_heads", "num_kv_heads"), 4),
    **dict.fromkeys(("head_dim", "d_kv"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_k"), 2),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"), 64),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("mamba_n_heads", "mamba_d_head", "mamba_d_state", "index_head_dim"), 8),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("hidden_sizes", "encoder_hidden_sizes", "neck_hidden_sizes", "embed_dims"), _WIDTH),
    **dict.fromkeys(("depths", "layer_depths"), 1),
    **dict.fromkeys(("entity_vocab_size", "pronunciation_vocab_size", "shape_vocab_size", "num_latents"), 50),
    **dict.fromkeys(("d_latents", "entity_emb_size"), _WIDTH),
    "vocab_size_per_layer_input": _VOCABULARY,
    "rotary_dim": 4,
    "vocab_size": _VOCABULARY,
    "image_size": _IMAGE,
    "patch_size": 8,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "num_labels": 5,
    "return_dict": True,
}
# What else a model type must have.
_OWN: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "mamba2": {"num_heads": 8},
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
}


class _Loss(nn.Module):
    """A model's own loss alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **batch: Tensor) -> Tensor:
        """The loss of a batch with labels."""
        return self.model(**batch).loss


def names() -> list[str]:
    """Every model type that has one of the heads."""
    return sorted({name for head in _HEADS for name in _classes(head)})


def samples(name: str) -> list[Sample]:
    """One batch for a model type."""
    head = next(head for head in _HEADS if name in _classes(head))
    kinds = _classes(head)[name]
    kind = getattr(transformers, kinds if isinstance(kinds, str) else kinds[0])
    # A model of text alone may take a part of the configuration.
    config = _tiny(kind.config_class or CONFIG_MAPPING[name], _OWN.get(name, {}))
    if head == "SEQ_TO_SEQ_CAUSAL_LM" and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 1
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind(config).parameters())
    if count > _MOST:
        raise ValueError(f"{count} parameters, though its sizes are small")
    model, batch = kind(config).train(), _batch(head)
    # Some models settle what kind of problem it is in their first call; dmc refuses that, with this way out.
    with torch.no_grad():
        model(**batch)
    return [Sample(_Loss(model), (), batch)]


def _classes(head: str) -> dict[str, Any]:
    return getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES")


def _tiny(kind: Any, own: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """A configuration with small sizes under the names that it has, and without dropout; `own` takes precedence."""
    given = kind()
    known = {**given.to_dict(), "num_labels": 2}
    known |= {name: known.get(meant) for name, meant in given.attribute_map.items()}
    small = {name: _like(name, value, known[name]) for name, value in _SMALL.items() if name in known}
    small |= {name: _without(value) for name, value in known.items() if "drop" in name}
    parts = {name: getattr(given, name, None) for name in getattr(kind, "sub_configs", {})}
    small |= {name: _tiny(type(part)) for name, part in parts.items() if part is not None}
    return kind(**{**small, **own})


def _without(rate: Any) -> Any:
    """No dropout, in any stage."""
    if isinstance(rate, list | tuple):
        return type(rate)(map(_without, rate))
    return 0.0 if isinstance(rate, float) else rate


def _like(name: str, value: Any, default: Any) -> Any:
    """For each stage of a network where the default has so many. Later stages are wider; groups of 32 divide them.

    No patch is larger than it was: networks that halve images several times begin with small ones.
    """
    if isinstance(default, int) and name == "patch_size":
        return min(value, default)
    if not isinstance(default, list | tuple) or not isinstance(value, int):
        return value
    grows = value == _WIDTH and len(set(default)) > 1
    return type(default)(value * (1 + stage * grows) for stage in range(len(default)))


def _batch(head: str) -> dict[str, Tensor]:
    if head == "IMAGE_CLASSIFICATION":
        return {"pixel_values": torch.randn(2, 3, _IMAGE, _IMAGE), "labels": torch.tensor([1, 3])}
    tokens = torch.randint(3, _VOCABULARY, (2, _LENGTH))
    return {"input_ids": tokens, "labels": tokens.clone()}
