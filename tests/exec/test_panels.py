"""Products of operands in panels give what eager gives, with vectors of both widths."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dmc
from dmc.lowering import stream
from dmc.lowering.panel_loops import with_panel_loops
from tests.compiled import assert_descends_as_eager

ROWS, INNER, OUTER = 528, 80, 96  # Tiles of 128 rows or columns do not divide them.


@pytest.mark.parametrize("processor", ["cpu", "cpu:x86-64-v3"])
def test_layers_with_panels_agree_with_eager(processor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[str] = []

    def kept(program: str, cores: int) -> str:
        programs.append(program)
        return with_panel_loops(program, cores)

    monkeypatch.setattr(stream, "with_panel_loops", kept)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(INNER, OUTER), nn.Tanh(), nn.Linear(OUTER, INNER))
    x, y = torch.randn(ROWS, INNER), torch.randn(ROWS, INNER)
    loss, optimizer = nn.functional.mse_loss, dmc.optim.SGD(lr=1.0)
    step = dmc.compile(model, loss=loss, optimizer=optimizer, example=(x, y), target=processor)
    assert all(f'panels = "{which}"' in programs[-1] for which in ("right", "both"))
    assert_descends_as_eager(step, model, loss, (x, y))
