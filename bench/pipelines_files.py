"""The files of `bench.pipelines_gpu`: plans for GPUs, with stages and without, compiled without weights."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace

import torch

import dmc
from bench.gpu_peers import CLIP, DECAY, RATE
from bench.pipelines_cases import MODELS, SCHEDULES, batch_of
from dmc import dialect
from dmc._mlir import ir
from dmc.analysis.requests.cuts import with_balanced_cuts
from dmc.api import compile_artifact
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.machine import machine, machine_for
from dmc.plans import Plan
from dmc.plans.rules import Pipeline
from dmc.simulator import simulate

_OPTIMIZER = dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, clip_grad_norm=CLIP)


def plan_of(
    schedule: str, options: argparse.Namespace, example: dict[str, torch.Tensor]
) -> tuple[Plan, int, list[int]]:
    """The plan, into how many parts it divides what a rank takes of the batch, and the blocks that begin stages."""
    ranks, parts = options.ranks, options.microbatches
    if schedule == "zero2":
        return dmc.plan(dmc.Mesh(dp=ranks)).data_parallel("dp", zero=2), parts // ranks, []
    if schedule == "tp":
        tensor = {"llama_1b": dmc.plans.megatron_llama, "gpt2_355m": dmc.plans.megatron_gpt2}[options.model]
        return dmc.plan(dmc.Mesh(tp=ranks)).use(tensor("tp", sequence_parallel=True)), parts, []
    plan = dmc.plan(dmc.Mesh(pp=ranks))
    plan = plan.pipeline("pp", cut="balanced", microbatches=parts, schedule=schedule, chunks=SCHEDULES[schedule])
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        net, *_ = MODELS[options.model]()
        step = import_step(net, None, _OPTIMIZER, example, Precision.BF16_MIXED, parts, 0, context)
        plan = with_balanced_cuts(plan, step.module, step.modules, machine(machine_for(options.machine, ranks)))
    (rule,) = plan.rules
    assert isinstance(rule, Pipeline)
    return plan, parts, [int(path.rpartition(".")[2]) for path in rule.cut]


def prepare(options: argparse.Namespace) -> int:
    """Compiles the plans and predicts their steps."""
    on = machine_for(options.machine, options.ranks)
    for schedule in options.systems:
        begin = time.perf_counter()
        net, _, _, length = MODELS[options.model]()
        example = batch_of(0, options.microbatches, length, net.config.vocab_size)
        plan, parts, cut = plan_of(schedule, options, example)
        artifact = compile_artifact(
            net.train(),
            optimizer=_OPTIMIZER,
            example=example,
            precision="bf16-mixed",
            accumulate=parts,
            plan=plan,
            target="cuda",
            machine=on,
        )
        path = options.directory / f"{options.model}@{schedule}@{options.microbatches}.dmc"
        replace(artifact, ir={}).write(path, weights=False)
        predicted = simulate(artifact.job, machine(on)).step_ns / 1e6
        path.with_suffix(".json").write_text(json.dumps({"predicted_ms": predicted, "cut": cut}))
        took, size = time.perf_counter() - begin, path.stat().st_size / 1e6
        print(
            f"{path.stem}: {predicted:.1f} ms predicted, stages begin at {cut}; {took:.0f} s, {size:.1f} MB", flush=True
        )
    return 0
