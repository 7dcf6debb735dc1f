"""ViT: patches by a strided convolution, a class token, and a loss outside the model."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

from tests.models.case import Case, image_batch


def build(dropout: float) -> Case:
    """Two layers of width 64 over 16 patches of 8 × 8; batches of 4 images of 32 × 32; 10 classes."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    config.num_labels = 10
    return Case("vit", transformers.ViTForImageClassification(config).train(), _loss, _example)


def _loss(output: Any, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.logits, targets)


def _example(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return image_batch(seed, 4, 32, 10)
