"""The step of eager that verification takes for the right one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.importer.forward.precision import Precision
from dmc.verification.reference import eager_step
from dmc.verification.request import Request

MILLIONS = 4_000_000


class Weighted(nn.Module):
    """Its gradient is its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(MILLIONS))

    def forward(self, x: Tensor) -> Tensor:
        """f32[MILLIONS] → f32 []"""
        return (self.weight * x).sum()


@pytest.mark.parametrize(("size", "norm"), [(1e-3, 0.5), (1e20, 0.0)])
def test_the_norm_to_clip_to_is_right_where_eager_is_not(size: float, norm: float) -> None:
    """Squares that overflow give an infinite norm, as in eager."""
    torch.manual_seed(0)
    optimizer = dmc.optim.SGD(lr=1.0, clip_grad_norm=0.5)
    example = {"x": size * torch.rand(MILLIONS)}
    request = Request.of(Weighted(), None, optimizer, example, Precision.FP32, 1, 0)
    left = eager_step(request, 0).values["weight"]
    assert np.linalg.norm(left.astype(np.float64)) == pytest.approx(norm, rel=1e-6)
