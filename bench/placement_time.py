"""How placement grows with depth: a GPT of width 64 with 12, 24 and 48 layers, ZeRO-2 over dp=2, tensors over tp=2.

`python -m bench.placement_time` prints seconds and memory of each pass from form imported to form placed, and the ratio
to 12 layers, and writes `bench/results/placement_time.json`. Each depth has a process of its own. Linear is a ratio of
4 for 48 layers at most.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import dmc
from bench.record import write_record
from dmc import dialect, plans
from dmc._mlir import ir
from dmc.analysis.requests.plan import write_plan
from dmc.importer.forward.precision import Precision
from dmc.importer.step import ImportedStep, import_step
from dmc.passes.base import run_passes
from dmc.pipeline import STAGES
from examples.gpt import GPT, Shape
from tests.models.case import token_batch, token_loss

DEPTHS = (12, 24, 48)
VOCABULARY, CONTEXT, WIDTH, BATCH = 100, 128, 64, 8
RESULTS = Path(__file__).parent / "results" / "placement_time.json"


def measure(layers: int) -> dict[str, float]:
    """Seconds of each pass of the stage that leaves form placed, "total", and "MiB" that the stage adds at its peak."""
    torch.manual_seed(0)
    model = GPT(Shape(vocabulary=VOCABULARY, context=CONTEXT, width=WIDTH, layers=layers))
    plan = dmc.plan(dmc.Mesh(dp=2, tp=2)).use(plans.zero2("dp")).use(tensor_parallel())
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
        example = token_batch(0, BATCH, CONTEXT, VOCABULARY)
        imported = import_step(model, token_loss, optimizer, example, Precision.FP32, 1, 0, context)
        before = peak_mib()
        seconds = {"plan": seconds_of(lambda: state_plan(imported, plan))}
        (placed,) = [stage for stage in STAGES if stage.form.name == "placed"]
        for element in placed.passes:
            name = str(element).partition("{")[0]
            seconds[name] = seconds_of(lambda each=element: run_passes(imported.module, (each,)))
    return {**seconds, "total": sum(seconds.values()), "MiB": peak_mib() - before}


def tensor_parallel() -> plans.Recipe:
    """Splits the products of a GPT."""
    return (
        plans.recipe("gpt")
        .shard("attention.qkv.weight|attention.qkv.bias", dim=0, axis="tp", blocks=3)
        .shard("attention.out.weight|mlp.2.weight", dim=1, axis="tp")
        .shard("mlp.0.weight|mlp.0.bias", dim=0, axis="tp")
    )


def state_plan(imported: ImportedStep, plan: plans.Plan) -> None:
    """Writes into an imported step what a plan asks for."""
    signature = imported.signature
    resolved = plans.resolve(plan, signature.state, imported.modules, signature.batch)
    write_plan(imported.module, resolved, signature, "cpu")


def seconds_of(work: Callable[[], None]) -> float:
    """How long `work` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def peak_mib() -> float:
    """The most memory that the process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _measure_alone(layers: int) -> dict[str, float]:
    program = f"import json; from bench.placement_time import measure; print(json.dumps(measure({layers})))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measures each depth and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = {layers: _measure_alone(layers) for layers in DEPTHS}
    first = found[DEPTHS[0]]
    table = Table("layers", *first, "ratio")
    for layers, values in found.items():
        table.add_row(
            str(layers), *(f"{value:.2f}" for value in values.values()), f"{values['total'] / first['total']:.2f}"
        )
    Console(width=140).print(table)
    write_record(options.out, {"layers": found})


if __name__ == "__main__":
    main()
