"""Small steps that the compiler planned: an MLP and a GPT-2 under the plans that split them in different ways."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import dmc
from dmc import plans
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.dataflow.recorder import Recorder
from dmc.analysis.requests.plan import write_plan
from dmc.forms import PLACED, PLANNED, SCHEDULED
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import parse_pipeline, run_passes
from dmc.passes.scheduled.select_kernels import SelectKernels
from dmc.pipeline import WITNESSED, stages_between
from dmc.plans import Plan, resolve
from dmc.plans.rules import Pipeline
from dmc.program import Job
from dmc.program.dataflow import Dataflow
from tests.placed_gpt2 import PLACE, placed_gpt2

DP2, DP4, TP2, DP2_TP2 = dmc.Mesh(dp=2), dmc.Mesh(dp=4), dmc.Mesh(tp=2), dmc.Mesh(dp=2, tp=2)
OF_MLP: dict[str, Plan] = {
    "dp2": dmc.plan(DP2).use(plans.data_parallel("dp")),
    "zero2": dmc.plan(DP4).use(plans.zero2("dp")),
    "zero3": dmc.plan(DP4).use(plans.zero3("dp")),
}
# Ranks that run programs of their own: what changes one program, or all alike, is not made for these.
STAGES: dict[str, Plan] = {
    "three stages": dmc.plan(dmc.Mesh(pp=3)).pipeline("pp", cut=[".1", ".2"], microbatches=2),
    "two stages beside zero2": dmc.plan(dmc.Mesh(pp=2, dp=2))
    .use(plans.zero2("dp"))
    .pipeline("pp", cut=[".2"], microbatches=2),
}
OF_GPT2: dict[str, Plan] = {
    "gpt2 zero3": dmc.plan(DP2).use(plans.zero3("dp")),
    "gpt2 tp2": dmc.plan(TP2).use(plans.megatron_gpt2("tp")),
    "gpt2 sp2": dmc.plan(TP2).use(plans.megatron_gpt2("tp", sequence_parallel=True)),
    "gpt2 dp2×tp2": dmc.plan(DP2_TP2).use(plans.data_parallel("dp")).use(plans.megatron_gpt2("tp")),
    "gpt2 offloaded": dmc.plan(DP2).use(plans.data_parallel("dp")).offload("*"),
    "gpt2 state in host memory": dmc.plan(DP2).use(plans.zero2("dp")).offload_optimizer(),
    "gpt2 zero2×tp2": dmc.plan(DP2_TP2).use(plans.zero2("dp")).use(plans.megatron_gpt2("tp")),
}
NAMES = (*OF_MLP, *OF_GPT2)
# What the others do is done by these, too.
QUICK = (*OF_MLP, "gpt2 sp2", "gpt2 zero2×tp2")


def planned(name: str, context: Any) -> Job:
    """The job that the pipeline makes. Its kernels are not tried on IREE, which only says where some must be cut."""
    return planned_with_dataflow(name, context)[0]


def planned_with_dataflow(name: str, context: Any) -> tuple[Job, Dataflow]:
    """The job, and what it must compute."""
    of_mlp = {**OF_MLP, **STAGES}
    module = _placed_mlp(of_mlp[name], context) if name in of_mlp else placed_gpt2(OF_GPT2[name], context)[0]
    recorder = Recorder()
    recorder.see(PLACED.name, module)
    for stage in stages_between(SCHEDULED.name, PLANNED.name):
        for each in stage.passes:
            run_passes(module, [] if isinstance(each, SelectKernels) else [each])
            recorder.see(WITNESSED.get(str(each), ""), module)
        recorder.see(stage.form.name, module)
    job = job_of(module)
    return job, recorder.dataflow(module, job)


def _placed_mlp(plan: Plan, context: Any) -> ir.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    example = (torch.randn(4, 4), torch.randn(4, 4))
    optimizer = dmc.optim.AdamW(lr=0.1, clip_grad_norm=1.0)
    parts = next((rule.microbatches or 1 for rule in plan.rules if isinstance(rule, Pipeline)), 1)
    imported = import_step(model, nn.functional.mse_loss, optimizer, example, Precision.FP32, parts, 0, context)
    module, signature = imported.module, imported.signature
    modules = [path for path, _ in model.named_modules()]
    write_plan(module, resolve(plan, signature.state, modules, signature.batch, parts), signature, "cpu")
    run_passes(module, parse_pipeline(PLACE))
    return module
