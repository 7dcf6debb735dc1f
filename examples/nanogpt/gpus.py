"""nanoGPT's step for `dmc compile gpus:make_step --mesh dp=4 --plan zero2 --target cuda -o gpus.dmc`."""

from __future__ import annotations

from typing import Any

import torch
from nanogpt import GPT, Config

import dmc


def make_step() -> dict[str, Any]:
    """The arguments of `dmc.compile`."""
    config, count = Config(), Config.gradient_accumulation_steps
    model = GPT(config)
    return {
        "model": model,
        "loss": 1,
        "optimizer": dmc.optim.FromTorch(model.configure_optimizers(config), clip_grad_norm=config.grad_clip),
        "example": (torch.zeros(count * config.batch_size, config.block_size, dtype=torch.long),) * 2,
        "accumulate": count,
        "precision": "bf16-mixed",
    }
