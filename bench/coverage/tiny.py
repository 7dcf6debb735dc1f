"""Tiny configurations of `transformers`: small sizes under the names that a configuration has for them."""

from __future__ import annotations

from typing import Any

VOCABULARY, LENGTH, IMAGE, WIDTH = 99, 12, 32, 32
# What a configuration calls its sizes, where it has them.
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "emb_dim"), WIDTH),
    "hidden_size_global": WIDTH,
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
    **dict.fromkeys(("mamba_n_heads", "mamba_d_head", "mamba_d_state", "index_head_dim", "mamba_d_ssm"), 8),
    **dict.fromkeys(("chunk_size", "mamba_chunk_size", "attention_window"), 4),
    **dict.fromkeys(("state_size", "linear_key_head_dim", "linear_value_head_dim", "ssm_state_size"), 8),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 4),
    **dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace"), 1),
    **dict.fromkeys(("hidden_sizes", "encoder_hidden_sizes", "neck_hidden_sizes", "embed_dims"), WIDTH),
    **dict.fromkeys(("depths", "layer_depths"), 1),
    **dict.fromkeys(("entity_vocab_size", "pronunciation_vocab_size", "shape_vocab_size", "num_latents"), 50),
    **dict.fromkeys(("d_latents", "entity_emb_size", "conv_dim"), WIDTH),
    **dict.fromkeys(("num_conv_pos_embeddings", "classifier_proj_size"), 16),
    **dict.fromkeys(("mask_time_prob", "mask_feature_prob"), 0.0),
    "num_conv_pos_embedding_groups": 4,
    "vocab_size_per_layer_input": VOCABULARY,
    "rotary_dim": 4,
    "vocab_size": VOCABULARY,
    "image_size": IMAGE,
    "patch_size": 8,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "num_labels": 5,
    "return_dict": True,
}
_HYBRID = {"num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid"]}
_WINDOWS = {"window_size": 4, "depths": [2, 1], "num_heads": [2, 4]}
_ROTATED = {"rope_type": "default", "rope_theta": 10000.0}
_GEMMA3N = {"intermediate_size": 64, "num_kv_shared_layers": 1, "activation_sparsity_pattern": [0.5, 0.0]}
_GROWING = [32, 64, 96, 128]
# What else a model type must have; this takes precedence.
_OWN: dict[str, dict[str, Any]] = {
    "audio-spectrogram-transformer": {"max_length": 32, "num_mel_bins": 32},
    "bit": {"hidden_sizes": _GROWING, "num_groups": 8},
    "blt": {"encoder_hash_byte_group_vocab": 50},
    "cohere_compass_text": {"rope_parameters": {"full_attention": _ROTATED, "sliding_attention": _ROTATED}},
    "convnext": {"num_stages": 4},
    "convnextv2": {"num_stages": 4},
    "dbrx": {
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 48},
    },
    "donut-swin": _WINDOWS,
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.3, "hidden_dim": 320},
    "falcon_h1": {"mamba_d_ssm": 64},
    "gemma3n_text": _GEMMA3N,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "hgnet_v2": {
        "stage_in_channels": [48, 32, 32, 64],
        "stage_mid_channels": [16, 16, 16, 16],
        "stage_out_channels": [32, 32, 64, 64],
        "hidden_sizes": [32, 32, 64, 64],
        "stage_numb_of_layers": [2, 2, 2, 2],
    },
    "inkling_text": {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_head_dim": 8, "rel_extent": 16},
    "kimi_linear": {"linear_head_dim": 8, "linear_num_heads": 4, "qk_head_dim": 16},
    "levit": {
        "image_size": 64,
        "patch_size": 16,
        "hidden_sizes": [32, 32, 32],
        "num_attention_heads": [2, 2, 2],
        "key_dim": [8, 8, 8],
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "mamba2": {"num_heads": 8},
    "mimo_v2_flash": {"head_dim": 24, "num_key_value_heads": 2},
    "mobilevitv2": {
        "image_size": 64,
        "base_attn_unit_dims": [32, 32, 32],
        "n_attn_blocks": [1, 1, 1],
        "width_multiplier": 0.5,
    },
    "nemotron_h": {"mamba_num_heads": 8, "mamba_head_dim": 8, "moe_shared_expert_intermediate_size": 48},
    "neomme": {"head_dim": 16},
    "perceiver": {"max_position_embeddings": LENGTH},
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
    "swin": _WINDOWS,
    "textnet": {"stem_out_channels": 32, "hidden_sizes": [32, 32, 32, 64, 64]},
    "xmod": {"default_language": "en_XX"},
    "zamba": _HYBRID,
    "zamba2": _HYBRID,
    "zaya": {"num_experts_per_tok": 1, "num_key_value_heads": 2},
}


def tiny(kind: Any) -> Any:
    """A configuration with small sizes under the names that it has, and without dropout."""
    given, own = kind(), _OWN.get(kind.model_type, {})
    known = {**given.to_dict(), "num_labels": 2}
    known |= {name: known.get(meant) for name, meant in given.attribute_map.items()}
    small = {name: _like(name, value, known[name]) for name, value in _SMALL.items() if name in known}
    small |= {name: _without(value) for name, value in known.items() if "drop" in name}
    parts = {name: getattr(given, name, None) for name in getattr(kind, "sub_configs", {})}
    small |= {name: tiny(type(part)) for name, part in parts.items() if part is not None}
    # Two names may mean one size.
    small = {name: value for name, value in small.items() if given.attribute_map.get(name) not in own}
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
    grows = value == WIDTH and len(set(default)) > 1
    return type(default)(value * (1 + stage * grows) for stage in range(len(default)))
