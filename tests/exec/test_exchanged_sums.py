"""Plans for GPUs sum large gradients by movements that copy engines make, in buckets; a CPU's plan reduces them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.api import compile_artifact
from dmc.program import Collective

# Of a weight: 512 × 512 of f32.
LARGE = 1 << 20


def _large(way: Callable[[str], Any], target: str) -> dict[str, list[int]]:
    """By kind, the bytes of the source of each large movement of a step of two layers, under a plan for two ranks."""
    mesh = dmc.Mesh(dp=2)
    artifact = compile_artifact(
        nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 512)),
        loss=nn.functional.mse_loss,
        optimizer=dmc.optim.SGD(lr=0.1),
        example=(torch.zeros(8, 512), torch.zeros(8, 512)),
        mesh=mesh,
        plan=dmc.plan(mesh).use(way("dp")),
        target=target,
        verify=False,
    )
    found: dict[str, list[int]] = {}
    for command in artifact.job.programs[0].commands:
        if isinstance(command, Collective) and command.source and command.source.length >= LARGE:
            found.setdefault(command.kind, []).append(command.source.length)
    return found


@pytest.mark.parametrize(
    ("way", "target", "kinds"),
    [
        (dmc.plans.data_parallel, "cuda", {"permute"}),
        (dmc.plans.data_parallel, "cpu", {"all_reduce"}),
        (dmc.plans.zero2, "cuda", {"all_to_all"}),
        (dmc.plans.zero2, "cpu", {"reduce_scatter"}),
    ],
)
def test_large_gradients(way: Callable[[str], Any], target: str, kinds: set[str]) -> None:
    found = _large(way, target)
    # Weights are gathered in any case.
    found.pop("all_gather", None)
    assert set(found) == kinds
    assert sum(map(sum, found.values())) >= 2 * LARGE
