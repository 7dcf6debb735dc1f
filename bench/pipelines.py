"""Pipelines at real size, planned for four H100 and simulated: `python -m bench.pipelines`.

For each model and schedule: the predicted step, the idle share of all ranks and of the rank that waits longest, beside
the formula for equal stages, the memory of a rank, and the seconds that planning and proof take; ZeRO-2 with as many
micro-batches stands beside. Models are on the meta device; kernels cost what the tuning table of an H100 says, or what
the machine's figures do. Writes `bench/results/pipelines_simulated.json`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import dmc
from bench.pipelines_cases import MODELS, SCHEDULES, formula_of
from bench.record import write_record
from dmc import dialect, pipeline
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.dataflow.recorder import Recorder
from dmc.analysis.requests.settings import write_settings
from dmc.compilation import arranged, state_plan
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.machine import cost_table_hash, machine
from dmc.plans import Plan
from dmc.program import Job
from dmc.proof import verify
from dmc.simulator import simulate
from dmc.target import targets

RESULTS = Path(__file__).parent / "results" / "pipelines_simulated.json"
RANKS, MACHINE = 4, "h100x4"


def planned(model: nn.Module, plan: Plan, microbatches: int, length: int) -> tuple[Job, dict[str, float]]:
    """The proven job of a step, four sequences a micro-batch, and the seconds of its parts."""
    tokens = torch.zeros(4 * microbatches, length, dtype=torch.int64)
    begin, recorder = time.perf_counter(), Recorder()
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        example = {"input_ids": tokens, "labels": tokens.clone()}
        optimizer = dmc.optim.AdamW(lr=1e-4, clip_grad_norm=1.0)
        step = import_step(model, None, optimizer, example, Precision.BF16_MIXED, microbatches, 0, context)
        own, factors, _ = arranged(plan, step, microbatches, machine(MACHINE))
        state_plan(step, own, microbatches, targets("cuda")[0], factors)
        write_settings(step.module, "cuda", MACHINE, 0)
        traced = time.perf_counter()
        pipeline.run(step.module, to_form="planned", witness=recorder.see)
        job, passed = job_of(step.module), time.perf_counter()
        verify(job, {}, cost_table_hash(machine(MACHINE)), recorder.dataflow(step.module, job))
    proven = time.perf_counter()
    return job, {"traced_s": traced - begin, "passes_s": passed - traced, "proven_s": proven - passed}


def result(name: str, schedule: str, microbatches: int) -> dict[str, Any]:
    """One line of the table; schedule: that of a pipeline, or "zero2"."""
    model, blocks, count, length = MODELS[name]()
    chunks = SCHEDULES.get(schedule, 1)
    if schedule == "zero2":
        plan, formula = dmc.plan(dmc.Mesh(dp=RANKS)).data_parallel("dp", zero=2), None
    else:
        stages = RANKS * chunks
        cut = [f"{blocks}.{number * count // stages}" for number in range(1, stages)]
        plan = dmc.plan(dmc.Mesh(pp=RANKS))
        plan = plan.pipeline("pp", cut=cut, microbatches=microbatches, schedule=schedule, chunks=chunks)
        formula = formula_of(schedule, RANKS, microbatches)
    job, seconds = planned(model, plan, microbatches, length)
    simulation = simulate(job, machine(MACHINE))
    idles = [1.0 - _busy(simulation, rank) / simulation.step_ns for rank in sorted(simulation.programs)]
    return {
        "model": name,
        "schedule": schedule,
        "system": "dmc",
        "stages": RANKS * chunks,
        "microbatches": microbatches,
        "predicted_ms": simulation.step_ns * 1e-6,
        "idle": sum(idles) / len(idles),
        "most_idle": max(idles),
        "formula": formula,
        "peak_bytes": job.peaks()["device"],
        **{key: round(value, 1) for key, value in seconds.items()},
    }


def _busy(simulation: Any, rank: int) -> float:
    """Nanoseconds in which a rank computes."""
    lanes = simulation.programs[rank].lanes
    return sum(span.end - span.start for span in simulation.by_rank[rank] if lanes[span.lane].queue == "compute")


def main() -> int:
    """Plans, simulates, prints and records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=tuple(MODELS))
    parser.add_argument("--only", nargs="+", choices=("zero2", *SCHEDULES), default=("zero2", *SCHEDULES))
    parser.add_argument("--microbatches", nargs="+", type=int, default=(8,))
    options = parser.parse_args()
    found = [
        result(name, schedule, count)
        for name in options.models
        for count in options.microbatches
        for schedule in options.only
    ]
    table = Table("model", "schedule", "micro-batches", "step ms", "idle %", "formula %", "GB a rank", "planned s")
    for each in found:
        formula = "" if each["formula"] is None else f"{100 * each['formula']:.1f}"
        seconds = each["traced_s"] + each["passes_s"] + each["proven_s"]
        numbers = (
            f"{each['predicted_ms']:.1f}",
            f"{100 * each['idle']:.1f}",
            formula,
            f"{each['peak_bytes'] * 1e-9:.2f}",
        )
        table.add_row(each["model"], each["schedule"], str(each["microbatches"]), *numbers, f"{seconds:.0f}")
    Console().print(table)
    write_record(RESULTS, {"device": f"simulated {MACHINE}", "cores": os.cpu_count(), "results": found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
