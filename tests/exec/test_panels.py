"""Products of operands in panels give what eager gives, with vectors of both widths."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn

import dmc
from dmc.lowering import stream
from dmc.lowering.deep_products import DEEPEST, PIECE
from dmc.lowering.panel_loops import with_panel_loops
from tests.compiled import assert_descends_as_eager

# Tiles of 128 rows or columns do not divide them, and the last is not a multiple of a panel's width.
ROWS, INNER, OUTER = 528, 80, 806
DEPTH = DEEPEST + PIECE // 2  # In pieces, each with panels of its own.


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
    programs: list[str] = []

    def kept(program: str, cores: int) -> str:
        programs.append(program)
        return with_panel_loops(program, cores)

    monkeypatch.setattr(stream, "with_panel_loops", kept)
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
