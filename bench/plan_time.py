"""How planning grows with depth: a GPT of width 64 with 12, 24, 48 and 96 layers, ZeRO-2 on four ranks.

`python -m bench.plan_time` prints seconds of each pass from form placed to form planned, and of the proof, with a fit
over depths: seconds ~ layers^exponent. It writes `bench/results/plan_time.json`. Each depth has a process of
its own. Linear is an exponent of about 1; the goal for 96 layers is three minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import dmc
from bench.placement_time import BATCH, CONTEXT, VOCABULARY, WIDTH, peak_mib, seconds_of, state_plan
from bench.record import write_record
from dmc import dialect, pipeline, plans
from dmc._mlir import ir
from dmc.analysis.jobs import job_of
from dmc.forms import PLANNED, SCHEDULED, verify_form
from dmc.importer.precision import Precision
from dmc.importer.step import import_step
from dmc.passes.base import run_passes
from dmc.proof import verify
from examples.gpt import GPT, Shape
from tests.models.case import token_batch, token_loss

DEPTHS = (12, 24, 48, 96)
RESULTS = Path(__file__).parent / "results" / "plan_time.json"


def measure(layers: int) -> dict[str, float]:
    """Seconds of each pass behind form placed, of the forms' checks and the proof, "total", and "MiB" that they add."""
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
        before, seconds = peak_mib(), dict[str, float]()
        for stage in pipeline.stages_between("scheduled", "planned"):
            for element in stage.passes:
                name = element if isinstance(element, str) else element.name
                seconds[name] = seconds_of(lambda each=element: run_passes(module, (each,)))
            if stage.form in (SCHEDULED, PLANNED):
                name = f"form {stage.form.name}"
                seconds[name] = seconds_of(lambda form=stage.form: verify_form(module, form))
        job = job_of(module)
        seconds["proof"] = seconds_of(lambda: print(verify(job).digest, file=sys.stderr))
    sizes = {"commands": len(job.programs[0].commands), "kernels": len(job.kernels)}
    return {**seconds, "total": sum(seconds.values()), "MiB": peak_mib() - before, **sizes}


def exponent(found: dict[int, dict[str, float]], name: str) -> float:
    """Of the power law through the times of a pass, by least squares of logarithms."""
    points = [(layers, values[name]) for layers, values in found.items()]
    slope, _ = np.polyfit([math.log(x) for x, _ in points], [math.log(max(y, 1e-3)) for _, y in points], 1)
    return float(slope)


def _measure_alone(layers: int) -> dict[str, float]:
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
    table = Table("", *(f"{layers} layers" for layers in found), "exponent")
    exponents = {name: exponent(found, name) for name in found[options.depths[0]]}
    for name, slope in exponents.items():
        table.add_row(name, *(f"{values[name]:.2f}" for values in found.values()), f"{slope:.2f}")
    Console(width=140).print(table)
    write_record(options.out, {"layers": found, "exponents": exponents})


if __name__ == "__main__":
    main()
