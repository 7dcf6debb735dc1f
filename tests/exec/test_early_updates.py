"""What a gradient is computed from does not wait for the end of the step where the update is part of its kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc import pipeline
from dmc.analysis.requests.settings import write_estimate, write_settings
from dmc.errors import MemoryCapError
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import NESTED

ROWS, NARROW, WIDE, RANK = 2048, 64, 1024, 4


class Adapted(nn.Module):
    """A frozen matrix, and the product of two small ones that are trained."""

    def __init__(self, read: int, written: int) -> None:
        super().__init__()
        self.frozen = nn.Parameter(torch.randn(written, read) / read, requires_grad=False)
        self.first = nn.Parameter(torch.randn(RANK, read) / read)
        self.second = nn.Parameter(torch.randn(written, RANK))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.frozen) + functional.linear(functional.linear(x, self.first), self.second)


class Layer(nn.Module):
    """A small perceptron beside its input."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = Adapted(NARROW, WIDE), Adapted(WIDE, NARROW)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(x)))


def test_a_layer_more_takes_no_wide_activation_more(context: Any) -> None:
    """The least memory, in which the forward pass runs again."""
    few, more = (_least(context, depth) for depth in (2, 4))
    assert (more - few) / 2 < ROWS * WIDE * 4


def _least(context: Any, depth: int) -> int:
    model = nn.Sequential(*(Layer() for _ in range(depth)))
    optimizer, rows = dmc.optim.AdamW(lr=1e-3), torch.randn(ROWS, NARROW)
    step = import_step(model, functional.mse_loss, optimizer, (rows, rows), Precision.FP32, 1, 0, context)
    write_settings(step.module, "cuda", "h100", memory_cap=1)
    write_estimate(step.module)
    with pytest.raises(MemoryCapError) as refusal:
        pipeline.run(step.module, to_form="planned", options=NESTED)
    return refusal.value.needed
