"""Verification at compile time: what it lets pass, what it leaves alone, and which planted faults it names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.errors import VerificationError
from dmc.importer import decompositions

aten = torch.ops.aten
ROWS, WIDTH = 4, 6


class Small(nn.Module):
    """A scan, a gelu and a product: something for every fault below."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.second = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """f32[ROWS, WIDTH] → f32[ROWS, WIDTH]"""
        h = nn.functional.gelu(self.first(x)).cumsum(1)
        return self.second(h) + 0.5 * h * (1.0 + torch.tanh(0.7 * (h + 0.044715 * h.pow(3))))


def compile_small(verify: bool | None = True, **options: Any) -> dmc.api.CompiledStep:
    """The step of a small model."""
    torch.manual_seed(0)
    example = (torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH))
    given = {"optimizer": dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0), **options}
    return dmc.compile(Small(), loss=nn.functional.mse_loss, example=example, verify=verify, **given)


def refusal() -> str:
    """What verification says of the small model."""
    with pytest.raises(VerificationError) as error:
        compile_small()
    return str(error.value)


def test_a_wrong_decomposition_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        return x * 2.0

    monkeypatch.setitem(decompositions._OWN, aten.cumsum.default, wrong)
    text = refusal()
    print(text)
    assert "changed in the decomposed graph, first at" in text
    assert "aten.cumsum" in text
