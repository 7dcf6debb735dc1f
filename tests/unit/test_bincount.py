"""`torch.bincount` of a given length: how many of a batch fall into each class."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dmc.errors import ImportFailure
from dmc.importer.capture.capture import capture
from tests.interpreted import assert_trains_as_eager

CLASSES = 5


class Balanced(nn.Module):
    """Experts are chosen by a gate with biases that rise for those chosen too rarely, without a gradient."""

    bias: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(4, CLASSES), nn.Parameter(torch.randn(CLASSES, 4, 4))
        self.register_buffer("bias", torch.zeros(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """[B, 4] → [B, 4]."""
        scores = self.gate(x).softmax(-1)
        fixed = scores.detach()
        chosen = (scores + self.bias).topk(2).indices
        load = torch.bincount(chosen.flatten(), minlength=CLASSES)
        weighed = chosen.int().flatten().bincount(fixed.gather(1, chosen).flatten(), minlength=CLASSES)
        with torch.no_grad():
            self.bias += 0.1 * (load.float().mean() - load).sign()
        weights = torch.zeros_like(scores).scatter(1, chosen, scores.gather(1, chosen)) / (1 + weighed)
        return torch.einsum("be,eio,bi->bo", weights, self.experts, x)


def test_trains_as_eager(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(6, 4), torch.randn(6, 4)) for _ in range(3)]
    assert_trains_as_eager(context, Balanced(), functional.mse_loss, batches)


class Histogram(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, classes: Tensor) -> Tensor:
        return (torch.bincount(classes) * self.scale).sum()


def test_without_a_length_it_is_refused() -> None:
    with pytest.raises(
        ImportFailure, match=r"bincount returns a tensor whose shape depends on data\n.*minlength=n"
    ) as raised:
        capture(Histogram(), None, (torch.tensor([0, 2, 2]),), None)
    assert "test_bincount.py" in str(raised.value)
