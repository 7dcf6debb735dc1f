"""How far the simulator is off: planned steps of small GPTs on this CPU, predicted and measured.

`python -m bench.prediction_error` compiles each case for machine "cpu", simulates its job, makes steps in this process,
and prints the fastest and the median step beside the prediction; results go to `bench/results/prediction_error.json`.
The error is that of the prediction against the fastest step: where something else runs too, the median is longer.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import dmc
from bench.record import write_record
from dmc import plans
from dmc.api import CompiledStep, compile_artifact
from dmc.machine import cost_table_hash, machine
from dmc.runtime.files.artifact import Artifact
from dmc.simulator import simulate
from examples.gpt import GPT, Shape
from tests.models.case import token_batch, token_loss

VOCABULARY, BATCH = 256, 8
RESULTS = Path(__file__).parent / "results" / "prediction_error.json"


@dataclass(frozen=True)
class Case:
    """A GPT on `ranks` ranks that share the batch."""

    layers: int
    width: int
    context: int
    ranks: int


CASES = (Case(2, 64, 32, 1), Case(2, 64, 32, 2), Case(2, 128, 64, 1), Case(2, 128, 64, 2))


@dataclass(frozen=True)
class Result:
    """Times in milliseconds. error: (predicted − fastest) / fastest."""

    case: Case
    launches: int
    predicted: float
    fastest: float
    median: float
    error: float


def measure(case: Case, steps: int, name: str) -> Result:
    """Compiles, predicts and runs one case."""
    batch = token_batch(0, BATCH, case.context, VOCABULARY)
    artifact = _compiled(case, batch)
    played = simulate(artifact.job, machine(name))
    step, seconds = CompiledStep(artifact), list[float]()
    for _ in range(steps):
        begin = time.perf_counter()
        float(step(*batch))
        seconds.append(time.perf_counter() - begin)
    predicted, fastest, median = played.step_ns / 1e6, min(seconds) * 1e3, statistics.median(seconds) * 1e3
    return Result(case, len(played.spans), predicted, fastest, median, (predicted - fastest) / fastest)


def _compiled(case: Case, batch: tuple[torch.Tensor, ...]) -> Artifact:
    torch.manual_seed(0)
    model = GPT(Shape(vocabulary=VOCABULARY, context=case.context, width=case.width, layers=case.layers))
    mesh = dmc.Mesh(dp=case.ranks)
    return compile_artifact(
        model,
        loss=token_loss,
        optimizer=dmc.optim.AdamW(lr=1e-3),
        example=batch,
        mesh=mesh,
        plan=dmc.plan(mesh).use(plans.data_parallel("dp")),
    )


def main() -> None:
    """Measures each case and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--machine", default="cpu", help="or a file of dmc calibrate --device cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = [measure(case, options.steps, options.machine) for case in CASES]
    table = Table("layers", "width", "context", "ranks", "commands", "predicted ms", "fastest ms", "median ms", "error")
    for result in found:
        times = (f"{value:.3f}" for value in (result.predicted, result.fastest, result.median))
        table.add_row(*map(str, asdict(result.case).values()), str(result.launches), *times, f"{result.error:+.1%}")
    Console(width=120).print(table)
    costs = cost_table_hash(machine(options.machine))
    write_record(options.out, {"load": os.getloadavg()[0], "costs": costs, "cases": [asdict(each) for each in found]})


if __name__ == "__main__":
    main()
