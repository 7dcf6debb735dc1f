"""What share of its peak this CPU attains, for `dmc/machine/data/devices/cpu.json`: fitted to measured steps.

`python -m bench.calibrate_cpu` compiles models for one rank and makes steps of each. The simulator takes the kernels of
a rank one after another, so a step should take Σ over kinds of (time at the peak ÷ efficiency) + launches × floor: one
equation for each model, solved for the efficiencies and the floor by least squares of relative errors. It prints them,
and how far each model's step is then off. Models that `bench.prediction_error` judges by are not among them.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import dmc
from dmc.api import CompiledStep, compile_artifact
from dmc.machine import machine
from dmc.machine.cost import at_peak_ns
from dmc.program import Job, Launch
from examples.gpt import GPT, Shape
from tests.models import bert, bert_small, lstm, vit
from tests.models.case import Case, token_batch, token_loss

FLOOR = "launch, ns"


def _gpt(layers: int, width: int, context: int, batch: int, vocabulary: int) -> Case:
    torch.manual_seed(0)
    model = GPT(Shape(vocabulary=vocabulary, context=context, width=width, layers=layers))
    return Case("gpt", model, token_loss, lambda seed: token_batch(seed, batch, context, vocabulary))


CASES: Mapping[str, Callable[[], Case]] = {
    "gpt 3 × 32": lambda: _gpt(3, 32, 64, 8, 128),
    "gpt 2 × 96": lambda: _gpt(2, 96, 96, 8, 512),
    "gpt 4 × 128": lambda: _gpt(4, 128, 128, 16, 100),
    "gpt 2 × 256": lambda: _gpt(2, 256, 128, 8, 2048),
    "bert": lambda: bert.build(0.0),
    "bert 4 × 192": lambda: bert_small.build_portable(0.0),
    "vit": lambda: vit.build(0.0),
    "lstm": lambda: lstm.build(0.0),
}


def main() -> None:
    """Measures, fits and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    measured = {name: _measure(build(), options.steps) for name, build in CASES.items()}
    kinds = (*machine("cpu").device.efficiency.shares, FLOOR)
    rows = np.array([[parts[kind] for kind in kinds] for parts, _ in measured.values()])
    times = np.array([fastest for _, fastest in measured.values()])
    found = _fit(rows / times[:, None])
    for kind, value in zip(kinds, found, strict=True):
        print(f"{kind}: {value:.0f}" if kind == FLOOR else f"{kind}: {1 / value if value else float('inf'):.3f}")
    table = Table("model", "predicted ms", "fastest ms", "error")
    for (name, (_, fastest)), predicted in zip(measured.items(), rows @ found, strict=True):
        table.add_row(name, f"{predicted / 1e6:.3f}", f"{fastest / 1e6:.3f}", f"{predicted / fastest - 1:+.1%}")
    Console(width=100).print(table)


def _measure(case: Case, steps: int) -> tuple[Counter[str], float]:
    """Nanoseconds at the peak by kind, and the number of launches; and nanoseconds of the fastest step."""
    example = case.example(0)
    optimizer = dmc.optim.AdamW(lr=1e-3)
    artifact = compile_artifact(case.model, loss=case.loss, optimizer=optimizer, example=example)
    assert artifact.job is not None
    step, seconds = CompiledStep(artifact), list[float]()
    for _ in range(steps):
        begin = time.perf_counter()
        float(step(**example) if isinstance(example, dict) else step(*example))
        seconds.append(time.perf_counter() - begin)
    step.close()
    return _parts(artifact.job), min(seconds) * 1e9


def _parts(job: Job) -> Counter[str]:
    parts = Counter[str]()
    for command in job.programs[0].commands:
        if isinstance(command, Launch):
            kernel = job.kernels[command.kernel]
            parts[kernel.kind] += at_peak_ns(machine("cpu"), kernel)
            parts[FLOOR] += 1
    return parts


def _fit(rows: np.ndarray) -> Sequence[float]:
    """x ≥ 0 that brings `rows` @ x closest to one: least squares, without the columns that would be negative."""
    kept = list(range(rows.shape[1]))
    while True:
        solution, *_ = np.linalg.lstsq(rows[:, kept], np.ones(len(rows)), rcond=None)
        if (solution >= 0).all():
            break
        del kept[int(np.argmin(solution))]
    found = np.zeros(rows.shape[1])
    found[kept] = solution
    return found.tolist()


if __name__ == "__main__":
    main()
