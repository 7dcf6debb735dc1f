"""Stages of a pipeline beside other axes, and for GPUs, are planned and proven, without their code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dmc
from dmc import dialect, plans
from dmc._mlir import ir
from dmc.compilation import arranged, state_plan
from dmc.executors import Builder, Settings
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.machine import machine
from dmc.plans import Plan
from dmc.program import Job
from dmc.target import targets
from tests.large import large_unless
from tests.models import gpt2, llama
from tests.models.case import Case

# By case: the model, the plan without its pipeline, the module that begins the second stage, precision and target.
_Planned = tuple[Callable[[float], Case], Plan, str, Precision, str]
CASES: dict[str, _Planned] = {
    "for GPUs": (gpt2.build, dmc.plan(dmc.Mesh(pp=2)), "transformer.h.1", Precision.BF16_MIXED, "cuda"),
    "beside tensor parallelism": (
        gpt2.build,
        dmc.plan(dmc.Mesh(pp=2, tp=2)).use(plans.megatron("tp")),
        "transformer.h.1",
        Precision.FP32,
        "cpu",
    ),
    "beside ZeRO-3": (
        llama.build,
        dmc.plan(dmc.Mesh(pp=2, dp=2)).data_parallel("dp", zero=3),
        "model.layers.1",
        Precision.BF16_MIXED,
        "cpu",
    ),
}


def _proven(planned: _Planned) -> Job:
    build, plan, cut, precision, target = planned
    case = build(0.1)
    on = "h100x2" if target == "cuda" else "cpu"
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
        imported = import_step(case.model, case.loss, optimizer, case.example(0), precision, 2, 0, context)
        staged = plan.pipeline("pp", cut=[cut], microbatches=2)
        own, factors, _ = arranged(staged, imported, 2, machine(on))
        state_plan(imported, own, 2, targets(target)[0], factors)
        return Builder(imported.module, imported.signature, Settings(target, on)).plan().job


@pytest.mark.parametrize("case", large_unless(("for GPUs",), CASES))
def test_stages_are_planned_and_proven(case: str) -> None:
    job = _proven(CASES[case])
    assert job.stages == ("pp",)
    assert [len(each.ranks) for each in job.classes] == [job.size // 2] * 2
    sent = [{command.kind for command in each.program.commands if hasattr(command, "kind")} for each in job.classes]
    assert all({"send", "recv"} <= kinds for kinds in sent)
    names = [{slot.name for slot in each.program.slots if slot.role == "parameter"} for each in job.classes]
    assert all(names)
    assert names[0].isdisjoint(names[1])
