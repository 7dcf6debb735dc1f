"""Products of operands in panels give what eager gives, with vectors of both widths."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.lowering.kernels import kernels
from dmc.lowering.kernels.panel_loops import with_panel_loops
from dmc.lowering.kernels.rewrites.split_deep_products import DEEPEST, PIECE
from dmc.lowering.stream import program as stream
from tests.compiled import assert_descends_as_eager

# Tiles of 128 rows or columns do not divide them, and the last is not a multiple of a panel's width.
ROWS, INNER, OUTER = 528, 80, 806
DEPTH = DEEPEST + PIECE // 2  # In pieces, each with panels of its own.


def _programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that are compiled from here on, with their products marked."""
    programs: list[str] = []

    def kept(program: str, cores: int) -> str:
        programs.append(program)
        return with_panel_loops(program, cores)

    monkeypatch.setattr(stream, "with_panel_loops", kept)
    return programs


@pytest.mark.parametrize(
    ("processor", "sizes"),
    [
        ("cpu", (ROWS, INNER, OUTER)),
        ("cpu:x86-64-v3", (ROWS, INNER, OUTER)),
        ("cpu", (64, DEPTH, 64)),
    ],
    ids=["this processor", "AVX2", "deep"],
)
def test_layers_with_panels_agree_with_eager(
    processor: str, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = _programs(monkeypatch)
    rows, inner, outer = sizes
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(inner, outer), nn.Tanh(), nn.Linear(outer, 80))
    x, y = torch.randn(rows, inner), torch.randn(rows, 80)
    loss, optimizer = nn.functional.mse_loss, dmc.optim.SGD(lr=1.0)
    step = dmc.compile(model, loss=loss, optimizer=optimizer, example=(x, y), target=processor)
    products = re.findall(r"panels = true\} ins\(%\S+, %\S+ : tensor<(\d+)x(\d+)xf32>, tensor<\d+x(\d+)", programs[-1])
    sides = {int(side) for rows_of, _, columns in products for side in (rows_of, columns)}
    assert {-(-rows // 16) * 16, -(-outer // 16) * 16} <= sides
    assert all(int(depth) <= DEEPEST for _, depth, _ in products)
    assert_descends_as_eager(step, model, loss, (x, y))


class _Loop(nn.Module):
    """An LSTM, whose products by its state have as many rows as the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def _assert_loop_agrees_with_eager(rows: int, processor: str) -> None:
    torch.manual_seed(0)
    model, (x, y) = _Loop(), torch.randn(2, 6, rows, 64)
    loss, optimizer = nn.functional.mse_loss, dmc.optim.SGD(lr=1.0)
    step = dmc.compile(model, loss=loss, optimizer=optimizer, example=(x, y), target=processor)
    assert_descends_as_eager(step, model, loss, (x, y))


# Rows that fill the registers, that leave some over, and fewer than that.
@pytest.mark.parametrize(
    ("processor", "rows"), [("cpu", 16), ("cpu", 20), ("cpu", 5), ("cpu:x86-64-v3", 20), ("cpu:x86-64-v3", 5)]
)
def test_steps_of_a_loop_that_share_panels_agree_with_eager(
    processor: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = _programs(monkeypatch)
    _assert_loop_agrees_with_eager(rows, processor)
    shared = re.findall(
        rf"panels = true\}} ins\(%\S+, %\S+ : tensor<{rows}x\d+xf32>, tensor<(\d+x\d+)xf32>", programs[-1]
    )
    assert set(shared) == {"64x256", "256x64"}, "in the forward and in the backward pass"


def test_shared_panels_that_cannot_be_loops_agree_with_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_misread(given: str, library: Any) -> set[str]:
        return set(library.kernels)

    monkeypatch.setattr(kernels, "misread_panels", all_misread)
    programs = _programs(monkeypatch)
    _assert_loop_agrees_with_eager(16, "cpu")
    assert "panels = true" not in programs[-1]
