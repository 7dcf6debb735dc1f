"""Slices written into a tensor that does not lie row by row, and the gradient of what was written."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.interpreted import assert_trains_as_eager


class Recurrence(nn.Module):
    """Its states are written one by one into a tensor that is transposed in memory, as its gradient is or is not."""

    def __init__(self, back: bool) -> None:
        super().__init__()
        self.weight, self.back = nn.Parameter(torch.randn(2, 3, 4)), back

    def forward(self, x: Tensor) -> Tensor:
        gates = (self.weight * x).transpose(1, 2)
        states, state = torch.zeros_like(gates), torch.zeros(2, 3)
        assert not states.is_contiguous()
        for time in range(4):
            state = 0.5 * state + gates[:, time] ** 2
            states[:, time] = state
        return (states.transpose(1, 2) if self.back else states) ** 2


def test_slices_of_a_transposed_tensor(context: Any) -> None:
    torch.manual_seed(0)
    for back in (False, True):
        batches = [(torch.randn(2, 3, 4), torch.randn(2, *((3, 4) if back else (4, 3)))) for _ in range(2)]
        assert_trains_as_eager(context, Recurrence(back), functional.mse_loss, batches)
