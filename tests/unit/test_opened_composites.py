"""A composite that would gather what it could split is opened, also behind another such one."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import dmc
from dmc import dialect as dm
from dmc.analysis.requests.plan import write_plan
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import run_passes
from dmc.pipeline import STAGES
from dmc.plans import resolve
from dmc.walk import walk


def test_cross_entropy_behind_dropout(context: Any) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 4))
    example = torch.randn(8, 8), torch.randint(4, (8,))
    loss = nn.functional.cross_entropy
    imported = import_step(model, loss, dmc.optim.SGD(lr=0.1), example, Precision.FP32, 1, 0, context)
    plan = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp")
    resolved = resolve(plan, imported.signature.state, imported.modules, imported.signature.batch)
    write_plan(imported.module, resolved, imported.signature, "cpu")
    (placed,) = [stage for stage in STAGES if stage.form.name == "placed"]
    run_passes(imported.module, placed.passes)
    names = {op.name for op in walk(imported.module.operation)}
    assert dm.AllReduceOp.OPERATION_NAME in names  # of gradients
    assert dm.AllGatherOp.OPERATION_NAME not in names
