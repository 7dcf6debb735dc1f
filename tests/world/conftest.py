"""The step that the ranks of these tests train, compiled once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
import dmc.optim
from dmc.runtime.files.artifact import Artifact


@dataclass(frozen=True)
class Files:
    """Two ranks under ZeRO-2, the same model on one rank, and as two stages on two."""

    ranks: Path
    alone: Path
    stages: Path


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The compiled step."""
    folder = tmp_path_factory.mktemp("world")
    plan = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp", zero=2)
    found = Files(folder / "ranks.dmc", folder / "alone.dmc", folder / "stages.dmc")
    compiled(mesh=plan.mesh, plan=plan).write(found.ranks)
    compiled().write(found.alone)
    compiled(plan=dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", cut=["2"], microbatches=2)).write(found.stages)
    return found


def compiled(**more: Any) -> Artifact:
    """A perceptron."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    optimizer = dmc.optim.AdamW(lr=1e-2, clip_grad_norm=1.0)
    example = torch.randn(8, 8), torch.randn(8, 4)
    return dmc.compile_artifact(model, loss=nn.functional.mse_loss, optimizer=optimizer, example=example, **more)
