"""Kernels whose results turn out to be equal once their constants are folded: windows of an adaptive pool."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from dmc.errors import DmcError
from dmc.lowering import iree, kernels

LOOPS_ONLY = (
    "--iree-preprocessing-pass-pipeline=builtin.module(util.func("
    "iree-dispatch-creation-fold-unit-extent-dims-for-func,"
    "iree-dispatch-creation-fuse-multi-use-elementwise-producer,canonicalize,cse))"
)


class Model(nn.Module):
    """Pools over windows of constant bounds."""

    def __init__(self, *sizes: int | tuple[int, int]) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.pools = nn.ModuleList([nn.AdaptiveAvgPool2d(size) for size in sizes])
        self.head = nn.LazyLinear(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[n, 1, h, w] → f32[n, 4]."""
        x = self.features(x)
        return self.head(torch.cat([pool(x).flatten(1) for pool in self.pools], dim=1))


def _compile(*sizes: int | tuple[int, int], pixels: tuple[int, int]) -> None:
    """Compiles a step, and compares it with eager: raises VerificationError where it differs."""
    torch.manual_seed(0)
    x, y = torch.rand(8, 1, *pixels), torch.zeros(8, dtype=torch.long)
    model = Model(*sizes)
    model(x)
    optimizer = dmc.optim.SGD(lr=0.1)
    dmc.compile(model, loss=functional.cross_entropy, optimizer=optimizer, example=(x, y), verify=True).close()


def test_equal_results_are_right() -> None:
    _compile((1, 2), pixels=(4, 5))


def test_results_of_unequal_windows_are_right() -> None:
    _compile((1, 2), (2, 3), pixels=(4, 5))


def test_what_iree_would_mix_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iree, "_MERGE_EQUAL", LOOPS_ONLY)
    # Not operation by operation, where there is nothing to mix up.
    monkeypatch.setattr(kernels, "WAYS", kernels.WAYS[:2])
    with pytest.raises(DmcError, match="takes two of its results for equal"):
        # Of a size that no other test compiles: kernels are kept.
        _compile((1, 2), pixels=(5, 5))
