"""Kernels whose results turn out to be equal.

Once their constants are folded: windows of an adaptive pool. Once the range of their numbers is known: an index that
is clamped, and wrapped again.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import dmc
from dmc.errors import DmcError
from dmc.lowering.iree import compiler
from dmc.lowering.kernels import kernels

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
    monkeypatch.setattr(compiler, "_MERGE_EQUAL", LOOPS_ONLY)
    # Not operation by operation, where there is nothing to mix up.
    monkeypatch.setattr(kernels, "WAYS", kernels.WAYS[:2])
    with pytest.raises(DmcError, match="takes two of its results for equal"):
        # Of a size that no other test compiles: kernels are kept.
        _compile((1, 2), pixels=(5, 5))


class Chain(nn.Module):
    """Scores of sequences by a table of transitions: an index is a column of it, and then a row."""

    def __init__(self) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(3, 3))

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """i64[n, length] → f32[]."""
        scores = [self.transitions[y[:, step - 1], y[:, step]] for step in range(1, y.shape[1])]
        return torch.stack(scores).sum(0).square().mean()


class Capacity(nn.Module):
    """Experts that take a few tokens each, into slots and out of them by one index that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 4, bias=False)
        self.experts = nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[n, 8] → f32[n, 8]."""
        weight, expert = self.gate(x).softmax(-1).max(-1)
        place = (functional.one_hot(expert, 4).cumsum(0) - 1).gather(1, expert[:, None]).squeeze(1)
        slot = torch.where(place < 3, expert * 3 + place, 12)
        taken = torch.zeros(13, 8).index_copy(0, slot, x)[:12].view(4, 3, 8)
        done = torch.cat([torch.bmm(taken, self.experts).view(12, 8), torch.zeros(1, 8)])
        return x + done[slot] * weight[:, None]


# The function without its memory of what was compiled.
_COMPILED: Any = kernels._compiled.__wrapped__  # pyright: ignore[reportPrivateUsage, reportFunctionMemberAccess]


@pytest.mark.parametrize("ways", [kernels.WAYS[:1], kernels.WAYS[2:]], ids=["fused", "apart"])
def test_indices_that_are_equal_are_right(monkeypatch: pytest.MonkeyPatch, ways: tuple[kernels.Way, ...]) -> None:
    monkeypatch.setattr(kernels, "WAYS", ways)
    # What is compiled in another way is neither used here nor left for other tests.
    monkeypatch.setattr(kernels, "_compiled", _COMPILED)
    torch.manual_seed(0)
    optimizer = dmc.optim.SGD(lr=0.1)
    dmc.compile(Chain(), optimizer=optimizer, example=(torch.randint(3, (8, 16)),), verify=True).close()
    x, y = torch.randn(10, 8), torch.randn(10, 8)
    dmc.compile(Capacity(), loss=functional.mse_loss, optimizer=optimizer, example=(x, y), verify=True).close()
