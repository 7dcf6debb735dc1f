"""A training step as it is right before a pass of form scheduled, and what it is run with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

import dmc
from dmc import pipeline
from dmc._mlir import ir
from dmc.analysis.requests.settings import write_settings
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import run_passes


def before_pass(
    name: str, model: nn.Module, example: tuple[torch.Tensor, torch.Tensor], context: ir.Context
) -> tuple[ir.Module, list[Any]]:
    """The step of `model` for an H200, in bf16-mixed, right before the pass `name`, and its arguments."""
    loss, optimizer = nn.functional.mse_loss, dmc.optim.SGD(lr=0.1)
    made = import_step(model, loss, optimizer, example, Precision.BF16_MIXED, 1, 0, context)
    write_settings(made.module, "cuda", "h200", 0)
    pipeline.run(made.module, to_form="placed")
    passes = next(stage for stage in pipeline.STAGES if stage.form.name == "scheduled").passes
    run_passes(made.module, passes[: list(map(str, passes)).index(name)])
    state = [tensor.detach().numpy().copy() for tensor in made.state.values()]
    controls = [np.array([0.1], np.float32), np.array(0, np.int32)]
    return made.module, [*state, *controls, *(each.numpy() for each in example)]
