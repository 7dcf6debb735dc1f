"""The models of `bench.gpu_step`: as `transformers` gives them, at the sizes at which they are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import transformers
from torch import nn
from transformers.pytorch_utils import Conv1D

from tests.models.case import Case, image_batch, masked_batch, token_batch


@dataclass(frozen=True)
class StepCase:
    """A model, and what counts its work.

    places: at how many places of a batch the products of the model are computed. rows: of a sequence. width: of all
    heads. attention: layers of it.
    """

    build: Callable[[], Case]
    places: int
    rows: int
    width: int
    attention: int
    causal: bool = False

    def flops(self, model: nn.Module) -> float:
        """Of the products of a step, forward and backward; half of attention where it is causal."""
        products = sum(each.weight.numel() for each in model.modules() if isinstance(each, nn.Linear | Conv1D))
        attention = 2 * self.attention * self.rows * self.width * (1 if self.causal else 2)
        return 3.0 * self.places * (2 * products + attention)


def batch_of(case: Case, seed: int) -> dict[str, torch.Tensor]:
    """A batch by the names of the model's inputs."""
    batch = case.example(seed)
    assert isinstance(batch, Mapping), "these models return their own loss"
    return dict(batch)


def _gpt2(layers: int, heads: int) -> Case:
    config = transformers.GPT2Config(n_layer=layers, n_head=heads, n_embd=64 * heads, use_cache=False)
    return _tokens("gpt2", transformers.GPT2LMHeadModel(config), 16, 1024, config.vocab_size)


def _bert() -> Case:
    config = transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    )
    model = transformers.BertForMaskedLM(config).train()
    return Case("bert_large", model, None, lambda seed: masked_batch(seed, 32, 512, config.vocab_size, 103))


def _llama() -> Case:
    config = transformers.LlamaConfig(
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=32000,
        use_cache=False,
    )
    return _tokens("llama", transformers.LlamaForCausalLM(config), 4, 2048, config.vocab_size)


def _vit() -> Case:
    config = transformers.ViTConfig()
    config.num_labels = 1000
    model = transformers.ViTForImageClassification(config).train()

    def example(seed: int) -> dict[str, torch.Tensor]:
        images, labels = image_batch(seed, 128, 224, 1000)
        return {"pixel_values": images, "labels": labels}

    return Case("vit", model, None, example)


def _tokens(name: str, model: nn.Module, batch: int, length: int, vocabulary: int) -> Case:
    def example(seed: int) -> dict[str, torch.Tensor]:
        tokens, _ = token_batch(seed, batch, length, vocabulary)
        return {"input_ids": tokens, "labels": tokens}

    return Case(name, model.train(), None, example)


CASES: Mapping[str, StepCase] = {
    "gpt2_124m": StepCase(lambda: _gpt2(12, 12), 16 * 1024, 1024, 768, 12, causal=True),
    "gpt2_355m": StepCase(lambda: _gpt2(24, 16), 16 * 1024, 1024, 1024, 24, causal=True),
    "bert_large": StepCase(_bert, 32 * 512, 512, 1024, 24),
    "llama_1b": StepCase(_llama, 4 * 2048, 2048, 2048, 16, causal=True),
    "vit_b16": StepCase(_vit, 128 * 197, 197, 768, 12),
}
