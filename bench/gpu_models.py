"""The models of the GPU benchmarks, from `transformers`, with their batches and numbers of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn

from tests.models.case import image_batch, masked_batch, token_batch

Loss = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Model:
    """How a model is built with a dropout probability, its batch by seed, and its loss if it returns none.

    flops: of the matrix products of a step (`_flops`). dropout: as its users train it.
    """

    build: Callable[[float], nn.Module]
    batch: Callable[[int], Mapping[str, torch.Tensor]]
    flops: float
    dropout: float = 0.1
    loss: Loss | None = None


def _flops(matmul_parameters: float, tokens: int, layers: int, width: int, length: int, causal: bool) -> float:
    """6 a weight and token; attention 12 · layers · width · length a token, half of it where it is causal.

    Chowdhery et al., "PaLM" (2022), appendix B; backward passes count twice, recomputation not.
    """
    return tokens * (6.0 * matmul_parameters + 12.0 * layers * width * length * (0.5 if causal else 1.0))


def _gpt2(layers: int, width: int, heads: int) -> Model:
    config = {"n_layer": layers, "n_embd": width, "n_head": heads, "use_cache": False}

    def build(dropout: float) -> nn.Module:
        dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**config, **dropouts)).train()

    weights = 12 * layers * width**2 + 50257 * width
    return Model(build, lambda seed: labelled(seed, 16, 1024, 50257), _flops(weights, 16384, layers, width, 1024, True))


def _bert_large(dropout: float) -> nn.Module:
    config = transformers.BertConfig(
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return transformers.BertForMaskedLM(config).train()


def llama(layers: int, heads: int, groups: int) -> Model:
    """A Llama of width 2048 on 4 × 2048 tokens. groups: the heads of keys and values."""
    width, inner, classes, length = 2048, 5632, 32000, 2048

    def build(_: float) -> nn.Module:
        config = transformers.LlamaConfig(
            vocab_size=classes,
            hidden_size=width,
            intermediate_size=inner,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=groups,
            use_cache=False,
        )
        return transformers.LlamaForCausalLM(config).train()

    weights = layers * (width * (2 * width + 2 * width * groups // heads) + 3 * width * inner) + classes * width
    flops = _flops(weights, 4 * length, layers, width, length, True)
    return Model(build, lambda seed: labelled(seed, 4, length, classes), flops, dropout=0.0)


def qwen3_moe(layers: int, experts: int, slots: int, width: int, inner: int, rows: int) -> Model:
    """A Qwen3-MoE with heads of 64, of which four share keys and values, on so many rows of 1024 tokens.

    slots: the experts of a token.
    """
    heads, length = width // 64, 1024
    own: dict[str, Any] = {"head_dim": 64}
    config = transformers.Qwen3MoeConfig(
        hidden_size=width,
        moe_intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads // 4,
        **own,
        num_experts=experts,
        num_experts_per_tok=slots,
        use_cache=False,
    )

    def build(_: float) -> nn.Module:
        return transformers.Qwen3MoeForCausalLM(config).train()

    active = layers * (width * (2.5 * width + experts) + 3 * slots * width * inner) + config.vocab_size * width
    flops = _flops(active, rows * length, layers, width, length, True)
    return Model(build, lambda seed: labelled(seed, rows, length, config.vocab_size), flops, dropout=0.0)


def _vit(dropout: float) -> nn.Module:
    dropouts = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), dropout)
    # The kind of loss, which `forward` would write into the configuration otherwise.
    options: dict[str, Any] = {"num_labels": 1000, "problem_type": "single_label_classification", **dropouts}
    return transformers.ViTForImageClassification(transformers.ViTConfig(**options)).train()


def _resnet(_: float) -> nn.Module:
    # The kind of loss, as for the ViT.
    options: dict[str, Any] = {"num_labels": 1000, "problem_type": "single_label_classification"}
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(**options)).train()


def labelled(seed: int, batch: int, length: int, vocabulary: int) -> Mapping[str, torch.Tensor]:
    """Random tokens, i64[batch, length], which are their own labels."""
    tokens, _ = token_batch(seed, batch, length, vocabulary)
    return {"input_ids": tokens, "labels": tokens.clone()}


def _images(seed: int) -> Mapping[str, torch.Tensor]:
    images, labels = image_batch(seed, 128, 224, 1000)
    return {"pixel_values": images, "labels": labels}


def empty(net: nn.Module) -> nn.Module:
    """The model with parameters of zero, which take up no memory until they are written, and pack well."""
    for parameter in net.parameters():
        parameter.data = torch.from_numpy(np.zeros(tuple(parameter.shape), np.float32))
    return net


MODELS: Mapping[str, Model] = {
    "gpt2_124m": _gpt2(12, 768, 12),
    "gpt2_355m": _gpt2(24, 1024, 16),
    "bert_large": Model(
        _bert_large,
        lambda seed: masked_batch(seed, 32, 512, 30522, 103),
        _flops(24 * 12 * 1024**2 + 1024**2 + 30522 * 1024, 16384, 24, 1024, 512, False),
    ),
    "llama_1b": llama(22, 32, 8),
    "qwen3_moe": qwen3_moe(8, 16, 2, 1024, 768, 8),
    "vit_b": Model(
        _vit,
        _images,
        _flops(12 * 12 * 768**2, 128 * 197, 12, 768, 197, False),
    ),
    # 4.09 · 10⁹ multiplications an image (He et al., 2016, with the stride in the 3 × 3 convolutions).
    "resnet_50": Model(_resnet, _images, 128 * 6.0 * 4.09e9, dropout=0.0),
}
