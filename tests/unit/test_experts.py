"""Groups of rows by computed sizes: what experts of a mixture need, beside PyTorch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations import moe

from tests.decomposed import assert_decomposes, assert_same, by_rule
from tests.interpreted import assert_trains_as_eager

assert moe.grouped_mm_experts_forward  # Importing the module has registered its operation.
grouped_mm = torch.ops.aten._grouped_mm.default


@pytest.mark.parametrize("sizes", [[3, 0, 5, 0], [8, 0, 0, 0], [0, 0, 0, 8]])
def test_grouped_products(sizes: list[int]) -> None:
    torch.manual_seed(0)
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    rows, matrices = torch.randn(8, 8), torch.randn(4, 8, 4)
    assert_same(lambda x, w: by_rule(grouped_mm, x, w, ends), lambda x, w: grouped_mm(x, w, ends), rows, matrices)


def test_counts() -> None:
    torch.manual_seed(0)
    x = torch.cat([torch.randn(50), torch.tensor([-1.0, 2.0, 2.5, 0.5, -1.5])])
    for options in ((7, -1.0, 2.0), (4, 0.0, 0.0), (3, -5.0, 5.0)):
        assert_decomposes(lambda each, given=options: torch.histc(each.detach(), *given), x)
    assert_decomposes(lambda each: torch.histc(each.detach(), 4), torch.ones(3))
    numbers = torch.randint(6, (40,)).float()
    assert_decomposes(lambda each: torch.histc(each.detach(), 5, 0, 4), numbers)


class Experts(nn.Module):
    """Each row goes to the expert of its largest score, as `transformers` does it: sorted, counted, multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(8, 4)
        self.experts = nn.Parameter(torch.randn(4, 8, 8) / 3)

    def forward(self, x: Tensor) -> Tensor:
        """f32[N, 8] → f32[N, 8]."""
        score, expert = self.router(x).softmax(-1).max(-1)
        sorted_experts, order = torch.sort(expert)
        counts = torch.histc(sorted_experts.float(), bins=4, min=0, max=3)
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        made = torch.ops.transformers.grouped_mm_fallback(x[order], self.experts.transpose(-2, -1), ends)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return made[back] * score.unsqueeze(-1)


def test_experts_that_group_their_rows_train_as_eager(context: Any) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(12, 8), torch.randn(12, 8)) for _ in range(3)]
    assert_trains_as_eager(context, Experts(), functional.mse_loss, batches)
