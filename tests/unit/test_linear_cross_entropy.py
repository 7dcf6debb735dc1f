"""The cross entropy of a linear layer that PyTorch computes in chunks, beside eager."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import LinearCrossEntropyOptions

from tests.interpreted import assert_trains_as_eager


class Classified(nn.Module):
    """Its losses, with weights of classes, and a target that is ignored."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        """x f32[3, 4], target i64[3], weight f32[5] → f32[5]."""
        options = LinearCrossEntropyOptions(allow_retain_graph=True)
        known: dict[str, Any] = {"linear_bias": self.head.bias, "weight": weight, "ignore_index": 2, "options": options}
        each = [
            functional.linear_cross_entropy(x, self.head.weight, target, reduction=how, **known).reshape(-1)
            for how in ("mean", "sum", "none")
        ]
        return torch.cat(each)


def test_losses_in_chunks(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(3, 4), torch.tensor([1, 2, 4]), torch.rand(5), torch.zeros(5)) for _ in range(2)]
    assert_trains_as_eager(context, Classified(), functional.mse_loss, batches)
