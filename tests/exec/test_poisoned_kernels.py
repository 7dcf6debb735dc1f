"""Kernels of a model, each alone between guard bytes (`tests.guarded`), on the CPU."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import dmc
from dmc.api import compile_artifact
from dmc.program import Job
from dmc.runtime.files.artifact import Artifact
from tests.guarded import faults, launches_of
from tests.planned_jobs import run, session

WIDTH = 16


class Model(nn.Module):
    """An operation of each kind of kernel: products, reductions, gathers, slices, scatters, state in place."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.convolution = nn.Conv2d(1, 2, 3)
        self.batch_norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(WIDTH, 12)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """int64[3, 6] → f32[18, 12]."""
        x = self.norm(self.table(index))
        x = x + functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        doubled = x.clone()
        doubled[:, ::2] *= 2.0
        x = doubled + x.flip(1)
        image = self.batch_norm(self.convolution(x.unsqueeze(1)))
        x = x + functional.max_pool2d(functional.gelu(image), 2).mean(dim=(1, 2, 3)).view(-1, 1, 1)
        return self.head(x + x.topk(1).values).flatten(0, 1)


@cache
def _compiled() -> Artifact:
    torch.manual_seed(0)
    index, targets = torch.randint(0, 12, (3, 6)), torch.randint(0, 12, (18,))
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    return compile_artifact(Model(), loss=functional.cross_entropy, optimizer=optimizer, example=(index, targets))


def _execute(job: Job, memory: np.ndarray) -> np.ndarray:
    loaded = session(job, _compiled().ir["03-scheduled"], {"memory": [memory]})
    run(loaded, {})
    after = loaded.read_state(0)
    loaded.close()
    return after


def test_kernels_keep_to_their_ranges() -> None:
    job = _compiled().job
    launches = launches_of(job)
    assert any(each in launch.reads for launch in launches for each in launch.writes), "nothing is in place"
    assert faults(job, _execute) == []
