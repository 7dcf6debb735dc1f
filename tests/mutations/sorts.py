"""Steps of five sorts, as the compiler plans them for the CPU and for a GPU: of which each field is changed alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from unittest.mock import patch

import torch
from torch import nn

import dmc
from dmc import dialect, pipeline, plans
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.dataflow.recorder import Recorder
from dmc.analysis.requests.keeping import write_keeping
from dmc.analysis.requests.plan import write_plan
from dmc.analysis.requests.settings import write_settings
from dmc.analysis.storage.fixed import fix_state
from dmc.analysis.storage.spaces import put_in_host_memory
from dmc.forms import IMPORTED, PLANNED
from dmc.importer.evaluation import import_evaluation
from dmc.importer.forward.precision import Precision
from dmc.importer.step import ImportedStep, import_step
from dmc.lowering.cuda import products
from dmc.plans import Plan
from dmc.program import ALIGNMENT, Job
from dmc.program.dataflow import Dataflow

ROWS, WIDTH, HIDDEN = 4, 4, 8
TARGETS = ("cpu", "cuda")


@dataclass(frozen=True)
class Planned:
    """The programs of a step, the first of which trains, and what each must compute."""

    jobs: tuple[Job, ...]
    dataflows: tuple[Dataflow, ...]


def _split() -> Plan:
    return dmc.plan(dmc.Mesh(tp=2)).shard("0.*", dim=0, axis="tp").shard("2.weight", dim=1, axis="tp")


# By name: what is asked of the compiler. The last one has several programs.
SORTS: dict[str, Callable[[], Plan | None]] = {
    "one rank": lambda: None,
    "dp": lambda: dmc.plan(dmc.Mesh(dp=2)).use(plans.zero2("dp")),
    "tp": _split,
    "offload": lambda: dmc.plan(dmc.Mesh(dp=2)).use(plans.data_parallel("dp")).offload("*").offload_optimizer(),
    "several programs": lambda: None,
}


@cache
def planned(sort: str, target: str) -> Planned:
    """The programs of a small model."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, WIDTH))
        example = (torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH))
        optimizer, loss = dmc.optim.AdamW(lr=0.1, clip_grad_norm=1.0), nn.functional.mse_loss
        step = import_step(model, loss, optimizer, example, Precision.FP32, 1, 0, context)
        job, dataflow = _planned(model, step, SORTS[sort](), target)
        if sort != "several programs":
            return Planned((job,), (dataflow,))
        evaluation = import_evaluation(model, loss, example, Precision.FP32, step, context)
        short = tuple(each[: ROWS // 2] for each in example)
        shorter = import_step(model, loss, optimizer, short, Precision.FP32, 1, 0, context)
        others = []
        for other in (evaluation, shorter):
            fix_state(other.module, job)
            others.append(_planned(model, other, None, target))
        return Planned((job, *(each for each, _ in others)), (dataflow, *(each for _, each in others)))


def _planned(model: nn.Module, step: ImportedStep, plan: Plan | None, target: str) -> tuple[Job, Dataflow]:
    module, signature = step.module, step.signature
    if plan is not None:
        modules = [path for path, _ in model.named_modules()]
        write_keeping(module, plans.keeping(plan.rules, modules))
        put_in_host_memory(module, plans.waiting_state(plan.rules, signature.state))
        write_plan(module, plans.resolve(plan, signature.state, modules, signature.batch, 1), signature, target)
    write_settings(module, target, "cpu" if target == "cpu" else "h100x8", 0)
    recorder = Recorder()
    # What a library may take beside its operands is interpreted as noise: little of it will do.
    with patch.object(products, "WORKSPACE", ALIGNMENT):
        pipeline.run(module, IMPORTED.name, PLANNED.name, witness=recorder.see)
    job = job_of(module)
    return job, recorder.dataflow(module, job)
