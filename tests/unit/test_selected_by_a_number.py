"""Numbers in tensors select parts of tensors: ring buffers, histories, tables of a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dmc.errors import ImportFailure
from dmc.importer.capture.capture import capture
from tests.interpreted import InterpretedStep, assert_trains_as_eager

ROWS, WIDTH = 4, 3
Use = Callable[["Ring", Tensor], Tensor]


class Ring(nn.Module):
    """A linear layer, the last results of which a buffer keeps; `use` reads and writes it."""

    history: Tensor
    count: Tensor
    rates: Tensor
    last: Tensor

    def __init__(self, use: Use) -> None:
        super().__init__()
        self.head, self.use = nn.Linear(WIDTH, WIDTH), use
        self.register_buffer("history", torch.arange(ROWS * 2 * WIDTH).view(ROWS, 2, WIDTH) / 10)
        self.register_buffer("count", torch.tensor(2))
        self.register_buffer("last", torch.zeros(2, WIDTH))
        self.register_buffer("rates", torch.tensor([1.0, 0.5, 0.25, 0.125, 0.1, 0.05]))

    def forward(self, x: Tensor) -> Tensor:
        """[2, WIDTH] → [2, WIDTH]."""
        return self.use(self, self.head(x))


def _replace(ring: Ring, y: Tensor) -> Tensor:
    place = ring.count % ROWS
    old = ring.history[place].clone()
    ring.history[place] = y.detach()
    ring.count += 1
    return y + old


def _schedule(ring: Ring, y: Tensor) -> Tensor:
    ring.count += 1
    return y * ring.rates[ring.count - 3]


def _columns(ring: Ring, y: Tensor) -> Tensor:
    ring.history[:, 0, ring.count % WIDTH] = y.detach().new_tensor([1.0, 2.0, 3.0, 4.0])
    ring.count += 1
    return y * ring.history[..., ring.count % WIDTH].sum(0).unsqueeze(1)


def _two(ring: Ring, y: Tensor) -> Tensor:
    ring.history[ring.count % ROWS, :, ring.count % WIDTH] = y.detach()[:, 0]
    ring.history[-ring.count % ROWS, None, 1:, 1] = 7
    ring.count += 1
    return y + ring.history[-ring.count % ROWS, 1, None, : ring.history.shape[2]]


def _added(ring: Ring, y: Tensor) -> Tensor:
    place = ring.count.int() % ROWS
    ring.history[place] += y.detach()
    ring.history[place, 0] *= 2
    ring.count += 1
    return y + ring.history[place] + ring.history[0]


def _negative(ring: Ring, y: Tensor) -> Tensor:
    ring.history[-(ring.count % ROWS) - 1] = y.detach()[None]
    ring.count += 1
    return y * ring.history[-(ring.count % ROWS) - 1].mean()


def _gradients(ring: Ring, y: Tensor) -> Tensor:
    ring.count += 1
    return y[ring.count % 2] * y.clone()[:, ring.count % WIDTH].unsqueeze(1)


def _of_constants(ring: Ring, y: Tensor) -> Tensor:
    row = ring.history[torch.tensor(1)]
    row += 1  # A view, as in eager.
    return y + ring.history[1]


def _of_integers(ring: Ring, y: Tensor) -> Tensor:
    order = torch.tensor([2, 0, 1])
    order[ring.count % 3] = 1.9
    ring.count += 1
    return y * order


USES = (_replace, _schedule, _columns, _two, _added, _negative, _gradients, _of_constants, _of_integers)


@pytest.mark.parametrize("use", USES)
def test_trains_as_eager(context: Any, use: Use) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(2, WIDTH), torch.randn(2, WIDTH)) for _ in range(3)]
    assert_trains_as_eager(context, Ring(use), functional.mse_loss, batches)


def _written_through(ring: Ring, y: Tensor) -> Tensor:
    ring.history[ring.count % ROWS].add_(1)
    return y


def _written_through_a_view(ring: Ring, y: Tensor) -> Tensor:
    row = ring.history[ring.count % ROWS]
    row[0] = y.detach()[0]
    return y + row


def _read_after_a_change(ring: Ring, y: Tensor) -> Tensor:
    row = ring.history[ring.count % ROWS]
    ring.history[ring.count % ROWS] = y.detach()
    return y + row


def _viewed_after_a_change(ring: Ring, y: Tensor) -> Tensor:
    row = ring.history[ring.count % ROWS][0]
    ring.history.zero_()
    return y + row


def _assigned_elsewhere(ring: Ring, y: Tensor) -> Tensor:
    row = ring.history[ring.count % ROWS]
    row += 1
    ring.history[(ring.count + 1) % ROWS] = row
    return y


def _assigned_where_the_number_is_now(ring: Ring, y: Tensor) -> Tensor:
    row = ring.history[ring.count]
    row += 1
    ring.count += 1
    ring.history[ring.count] = row
    return y


def _kept(ring: Ring, y: Tensor) -> Tensor:
    ring.last = ring.history[ring.count % ROWS]
    return y


REFUSED = (
    _kept,
    _assigned_where_the_number_is_now,
    _written_through,
    _written_through_a_view,
    _read_after_a_change,
    _viewed_after_a_change,
    _assigned_elsewhere,
)


@pytest.mark.parametrize("use", REFUSED)
def test_a_copy_that_differs_from_eagers_view_is_refused(use: Use) -> None:
    x = torch.ones(2, WIDTH)
    with pytest.raises(ImportFailure, match="writes into what a number in a tensor selects, or into what"):
        capture(Ring(use), functional.mse_loss, (x, x), None)


def _write_beyond(ring: Ring, y: Tensor) -> Tensor:
    ring.count += 1
    ring.history[ring.count] = y.detach()
    return y


def _read_beyond(ring: Ring, y: Tensor) -> Tensor:
    ring.count += 1
    return y + ring.history[ring.count]


@pytest.mark.parametrize("use", [_write_beyond, _read_beyond])
def test_out_of_range_gives_no_number(context: Any, use: Use) -> None:
    x = torch.ones(2, WIDTH)
    step = InterpretedStep(context, Ring(use), functional.mse_loss, (x, x))
    assert math.isfinite(float(step(x, x)))
    assert math.isnan(float(step(x, x)))
