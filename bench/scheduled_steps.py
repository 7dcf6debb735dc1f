"""The steps of `bench.gpu_models`, on their way through the passes that schedule them."""

from __future__ import annotations

from typing import Any

import torch

from bench.cases import own_optimizer
from bench.gpu_models import MODELS
from dmc import pipeline
from dmc._mlir import ir
from dmc.analysis.requests.settings import write_settings
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import run_passes


def step_before(name: str, context: ir.Context, last: str, machine: str, cap: int = 0, without: str = "") -> str:
    """The text of a model's step for CUDA, bf16-mixed, before one of the passes that lead to form scheduled.

    last: the name of that pass. cap: of device memory, in bytes; 0 for none. without: a pass that is left out.
    """
    model = MODELS[name]
    with torch.device("meta"):
        module = model.build(model.dropout)
    module.to_empty(device="cpu")
    tie: Any = getattr(module, "tie_weights", None)
    if tie is not None:
        tie()
    precision = Precision("bf16-mixed")
    imported = import_step(module, model.loss, own_optimizer(), model.batch(0), precision, 1, 0, context)
    write_settings(imported.module, "cuda", machine, cap)
    pipeline.run(imported.module, to_form="placed")
    scheduled = next(stage for stage in pipeline.STAGES if stage.form.name == "scheduled")
    names = [str(each) for each in scheduled.passes]
    run_passes(imported.module, [each for each in scheduled.passes[: names.index(last)] if str(each) != without])
    return imported.module.operation.get_asm(enable_debug_info=True)
