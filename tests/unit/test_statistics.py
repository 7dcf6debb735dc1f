"""Running statistics that a batch norm changes, and what else reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step


class Normalised(nn.Module):
    """A linear layer, and what `read` makes of its result with a batch norm."""

    def __init__(self, read: Callable[[nn.BatchNorm1d, Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.norm, self.read = nn.Linear(4, 4), nn.BatchNorm1d(4), read

    def forward(self, x: Tensor) -> Tensor:
        """f32[n, 4] → f32[n, 4]"""
        return self.read(self.norm, self.linear(x))


def _twice_in_a_region(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        x = norm(x) + 1.0
    return norm(x.float())


def _copied(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    return norm(x * norm.get_buffer("running_var").clone())


def _read_afterwards(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    return norm(x) * norm.get_buffer("running_var")


def _scaled(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    return norm(x * norm.get_buffer("running_var").view(1, 4))


def _scaled_in_a_region(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        x = x * norm.get_buffer("running_var")
    return norm(x.float())


def _fixed_first(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    return norm(nn.functional.batch_norm(x, norm.running_mean, norm.running_var))


def _import(read: Callable[[nn.BatchNorm1d, Tensor], Tensor], context: Any) -> None:
    example = torch.randn(8, 4), torch.randn(8, 4)
    optimizer = dmc.optim.SGD(lr=0.1)
    import_step(Normalised(read), nn.functional.mse_loss, optimizer, example, Precision.FP32, 1, 0, context)


@pytest.mark.parametrize("read", [_twice_in_a_region, _copied, _read_afterwards])
def test_accepted(read: Callable[[nn.BatchNorm1d, Tensor], Tensor], context: Any) -> None:
    _import(read, context)


@pytest.mark.parametrize("read", [_scaled, _scaled_in_a_region, _fixed_first])
def test_refused(read: Callable[[nn.BatchNorm1d, Tensor], Tensor], context: Any) -> None:
    with pytest.raises(dmc.errors.DmcError, match="statistics that an earlier operation reads") as caught:
        _import(read, context)
    assert "norm" in caught.value.place and caught.value.hint
