"""Tables of float64 that a model reads in float32, as diffusion models keep their schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc
from dmc.errors import ImportFailure

TABLE = np.cumprod(1 - np.linspace(1e-4, 0.02, 100))


def _table() -> Tensor:
    return torch.from_numpy(TABLE)


READINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "row-then-type": lambda t: _table()[t].float()[:, None],
    "type-then-row": lambda t: _table().float()[t][:, None],
    "views": lambda t: _table().view(100, 1).detach()[t].to(torch.float32),
    "selected": lambda t: _table().index_select(0, t).type(torch.float32).unsqueeze(1),
}


class Noisy(nn.Module):
    """A layer of an input that a schedule mixes with noise."""

    def __init__(self, reading: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.reading = nn.Linear(4, 4), reading

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        kept = self.reading(t)
        return self.linear(kept.sqrt() * x + (1 - kept).sqrt())


def _compiled(reading: Callable[[Tensor], Tensor]) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model, batch = Noisy(reading), (torch.randn(8, 4), torch.randint(100, (8,)), torch.randn(8, 4))
    options: dict[str, Any] = {"loss": functional.mse_loss, "optimizer": dmc.optim.SGD(lr=0.1), "example": batch}
    return model, batch, dmc.compile(model, **options, verify=False)


@pytest.mark.parametrize("name", READINGS)
def test_a_table_is_read_as_in_eager(name: str) -> None:
    model, (x, t, targets), step = _compiled(READINGS[name])
    expected = functional.mse_loss(model(x, t), targets).item()
    assert float(step(x, t, targets)) == pytest.approx(expected, rel=1e-6)


def test_arithmetic_in_float64_is_refused_at_its_line() -> None:
    with pytest.raises(ImportFailure, match=r"computes with a constant of float64\n.*\.float\(\)") as caught:
        _compiled(lambda t: (1 - _table())[t].float()[:, None])
    assert "test_doubles.py" in caught.value.place and "rsub" in caught.value.place
