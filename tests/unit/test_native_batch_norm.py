"""Statistics that an operation writes without its schema saying so."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.interpreted import assert_trains_as_eager

WIDTH = 4


class Native(nn.Module):
    """Statistics that an operation writes without its schema saying so, in a step that writes nothing else."""

    mean: Tensor
    variance: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("variance", torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        y, _, _ = torch.native_batch_norm(self.linear(x), None, None, self.mean, self.variance, True, 0.1, 1e-5)
        return y


def test_statistics_of_native_batch_norm(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(5, WIDTH), torch.randn(5, WIDTH)) for _ in range(3)]
    assert_trains_as_eager(context, Native(), nn.functional.mse_loss, batches)
