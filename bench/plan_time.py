"""How planning grows with depth: a GPT of width 64 with 12, 24, 48 and 96 layers, ZeRO-2 on four ranks.

`python -m bench.plan_time` prints, for each pass from form placed to form planned and for the proof, seconds and the
memory that it needs beside what was there (MB, 10⁶ bytes, resident), with fits over depths: seconds ~ layers^exponent,
and likewise memory. It writes `bench/results/plan_time.json`. Each depth has a process of its own. Linear is an
exponent of about 1, less where something does not grow; the goal for 96 layers is three minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import dmc
from bench.placement_time import BATCH, CONTEXT, VOCABULARY, WIDTH, seconds_of, state_plan
from bench.record import write_record
from bench.resident import peak, reset_peak
from dmc import dialect, pipeline, plans
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.forms import PLANNED, SCHEDULED, verify_form
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import run_passes
from dmc.proof import verify
from examples.gpt import GPT, Shape
from tests.models.case import token_batch, token_loss

DEPTHS = (12, 24, 48, 96)
# Shorter times are indistinguishable from zero.
LEAST = {"seconds": 0.05, "mb": 2.0}
RESULTS = Path(__file__).parent / "results" / "plan_time.json"


def measure(layers: int) -> dict[str, dict[str, float]]:
    """Of each pass behind form placed, the forms' checks and the proof: "seconds" and "mb"; and "sizes" of the plan."""
    torch.manual_seed(0)
    model = GPT(Shape(vocabulary=VOCABULARY, context=CONTEXT, width=WIDTH, layers=layers))
    plan = dmc.plan(dmc.Mesh(dp=4)).use(plans.zero2("dp"))
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
        example = token_batch(0, BATCH, CONTEXT, VOCABULARY)
        imported = import_step(model, token_loss, optimizer, example, Precision.FP32, 1, 0, context)
        state_plan(imported, plan)
        module = imported.module
        pipeline.run(module, to_form="placed")
        costs = dict[str, dict[str, float]]()
        for stage in pipeline.stages_between("scheduled", "planned"):
            for element in stage.passes:
                name = str(element).partition("{")[0]
                costs[name] = _cost(lambda each=element: run_passes(module, (each,)))
            if stage.form in (SCHEDULED, PLANNED):
                name = f"form {stage.form.name}"
                costs[name] = _cost(lambda form=stage.form: verify_form(module, form))
        job = job_of(module)
        costs["proof"] = _cost(lambda: print(verify(job).digest, file=sys.stderr))
    total = {
        "seconds": sum(cost["seconds"] for cost in costs.values()),
        "mb": max(cost["mb"] for cost in costs.values()),
    }
    sizes: dict[str, float] = {"commands": len(job.programs[0].commands), "kernels": len(job.kernels)}
    return {**costs, "all": total, "sizes": sizes}


def _cost(work: Callable[[], None]) -> dict[str, float]:
    before = reset_peak()
    seconds = seconds_of(work)
    return {"seconds": seconds, "mb": peak() - before}


def exponent(points: Mapping[int, float], least: float) -> float:
    """Of the power law through (layers, cost), by least squares of logarithms; costs below `least` count as that."""
    slope, _ = np.polyfit(np.log(list(points)), np.log([max(cost, least) for cost in points.values()]), 1)
    return float(slope)


def _measure_alone(layers: int) -> dict[str, dict[str, float]]:
    program = f"import json; from bench.plan_time import measure; print(json.dumps(measure({layers})))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measures each depth and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depths", nargs="+", type=int, default=DEPTHS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = {layers: _measure_alone(layers) for layers in options.depths}
    exponents: dict[str, dict[str, float]] = {}
    for unit, least in LEAST.items():
        table = Table(unit, *(f"{layers} layers" for layers in found), "exponent")
        for name in [name for name, costs in found[options.depths[0]].items() if unit in costs]:
            points = {layers: costs[name][unit] for layers, costs in found.items()}
            slope = exponents.setdefault(name, {})[unit] = exponent(points, least)
            table.add_row(name, *(f"{cost:.2f}" for cost in points.values()), f"{slope:.2f}")
        Console(width=120).print(table)
    write_record(options.out, {"layers": found, "exponents": exponents})


if __name__ == "__main__":
    main()
