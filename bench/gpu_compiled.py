"""The steps of the GPU benchmarks, compiled on any machine."""

from __future__ import annotations

from pathlib import Path

import dmc
from bench.gpu_models import Model, empty
from bench.gpu_peers import CLIP, DECAY, RATE
from dmc.api import compile_artifact
from dmc.runtime.files.artifact import Artifact


def compiled(model: Model, dropout: float, machine: str, tuning: Path | None) -> Artifact:
    """A model's step for CUDA, with parameters of zero."""
    return compile_artifact(
        empty(model.build(dropout)),
        loss=model.loss,
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, clip_grad_norm=CLIP),
        example=model.batch(0),
        precision="bf16-mixed",
        target="cuda",
        machine=machine,
        tuning=tuning,
        verify=False,
    )
