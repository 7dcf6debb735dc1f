"""The demo's GPT at its full size, and a small one for the comparison with eager."""

from __future__ import annotations

import torch

from examples.gpt import GPT, Shape
from tests.models.case import Case, token_batch, token_loss


def build(dropout: float, layers: int = 2) -> Case:
    """Layers of width 64; batches of 4 × 16 tokens over a vocabulary of 64."""
    return _case(Shape(vocabulary=64, context=16, width=64, layers=layers, heads=4, dropout=dropout), batch=4)


def build_bench(dropout: float) -> Case:
    """The demo's own shape: four layers of width 128; batches of 16 × 128 tokens over a vocabulary of 100."""
    return _case(Shape(vocabulary=100, dropout=dropout), batch=16)


def _case(shape: Shape, batch: int) -> Case:
    torch.manual_seed(0)
    model = GPT(shape)
    return Case(
        "demo_gpt", model.train(), token_loss, lambda seed: token_batch(seed, batch, shape.context, shape.vocabulary)
    )
