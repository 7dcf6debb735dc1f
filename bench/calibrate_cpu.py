"""The share of its peak that this CPU attains, for `dmc/machine/data/devices/cpu.json`: fitted to measured steps.

`python -m bench.calibrate_cpu` compiles models for one rank and makes steps of each, as they are and with all launches
of one kind issued several times, so that the difference is what kernels of that kind take. A step, and each kind,
should take Σ (time at the peak ÷ efficiency) + launches × floor: equations for the efficiencies and the floor, solved
by least squares of relative errors. It prints these, and how far each equation is off. What is issued again finds its
operands in the cache, so kinds come out somewhat too fast; the equations of whole steps hold against that. Models that
`bench.prediction_error` judges by are not among them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import dmc
from dmc import dialect
from dmc._mlir import ir
from dmc.api import CompiledStep, compile_artifact
from dmc.lowering.kernels import compile_kernels
from dmc.lowering.stream import compile_job
from dmc.machine import machine
from dmc.machine.cost import at_peak_ns
from dmc.program import Command, Job, Kernel, Launch
from dmc.runtime.artifact import Artifact
from dmc.target import CPU
from examples.gpt import GPT, Shape
from tests.models import bert, bert_small, lstm
from tests.models.case import Case, token_batch, token_loss

FLOOR = "launch, ns"
TIMES = 5
# Kinds that take a smaller share of a step are lost in noise.
LEAST = 0.05


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
    "lstm": lambda: lstm.build(0.0),
}


@dataclass(frozen=True)
class Sample:
    """Nanoseconds of a step, or of its kernels of one kind. parts: time at the peak by kind, and the launches."""

    model: str
    what: str
    parts: Mapping[str, float]
    measured: float


def main() -> None:
    """Measures, fits and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--models", nargs="+", choices=tuple(CASES), default=tuple(CASES))
    options = parser.parse_args()
    samples = [sample for name in options.models for sample in _samples(name, CASES[name](), options.steps)]
    kinds = (*machine("cpu").device.efficiency.shares, FLOOR)
    rows = np.array([[sample.parts.get(kind, 0.0) for kind in kinds] for sample in samples])
    times = np.array([sample.measured for sample in samples])
    least = np.array([0.0 if kind == FLOOR else 1.0 for kind in kinds])
    found = least + _fit(rows / times[:, None], 1.0 - rows @ least / times)
    for kind, value in zip(kinds, found, strict=True):
        print(f"{kind}: {value:.0f}" if kind == FLOOR else f"{kind}: {1 / value:.2f}")
    table = Table("model", "", "launches", "predicted, ms", "measured, ms", "error")
    for sample, predicted in zip(samples, rows @ found, strict=True):
        figures = (f"{value / 1e6:.3f}" for value in (predicted, sample.measured))
        error = predicted / sample.measured - 1
        table.add_row(sample.model, sample.what, f"{sample.parts[FLOOR]:.0f}", *figures, f"{error:+.0%}")
    Console(width=120).print(table)


def _samples(name: str, case: Case, steps: int) -> Iterator[Sample]:
    example = case.example(0)
    optimizer = dmc.optim.AdamW(lr=1e-3)
    artifact = compile_artifact(case.model, loss=case.loss, optimizer=optimizer, example=example)
    job = artifact.job
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        code = compile_kernels(ir.Module.parse(artifact.ir["03-scheduled"]), job.kernels, CPU)
    launched = [job.kernels[each.kernel] for each in job.programs[0].commands if isinstance(each, Launch)]
    step = _fastest_ns(artifact, example, steps)
    yield Sample(name, "step", _parts(launched), step)
    for kind in sorted({kernel.kind for kernel in launched}):
        longer = _repeated(job, kind)
        modules = {"cpu": compile_job(longer, code, CPU).data}
        again = _fastest_ns(replace(artifact, job=longer, modules=modules), example, steps)
        measured = (again - step) / (TIMES - 1)
        if measured > LEAST * step:
            yield Sample(name, kind, _parts([kernel for kernel in launched if kernel.kind == kind]), measured)


def _parts(kernels: Sequence[Kernel]) -> dict[str, float]:
    parts: dict[str, float] = {FLOOR: len(kernels)}
    for kernel in kernels:
        parts[kernel.kind] = parts.get(kernel.kind, 0.0) + at_peak_ns(machine("cpu"), kernel)
    return parts


def _repeated(job: Job, kind: str) -> Job:
    """The job with the launches of a kind issued `TIMES` times: it computes nonsense, for as long."""
    (program,) = job.programs
    commands: list[Command] = []
    for command in program.commands:
        is_meant = isinstance(command, Launch) and job.kernels[command.kernel].kind == kind
        commands += [command] * (TIMES if is_meant else 1)
    return msgspec.structs.replace(job, programs=(msgspec.structs.replace(program, commands=tuple(commands)),))


def _fastest_ns(artifact: Artifact, example: Any, steps: int) -> float:
    step, seconds = CompiledStep(artifact), list[float]()
    for _ in range(steps):
        begin = time.perf_counter()
        float(step(**example) if isinstance(example, dict) else step(*example))
        seconds.append(time.perf_counter() - begin)
    step.close()
    return min(seconds) * 1e9


def _fit(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """x ≥ 0 that brings `rows` @ x closest to `wanted`: least squares, without the columns that would be negative."""
    kept = list(range(rows.shape[1]))
    while True:
        solution, *_ = np.linalg.lstsq(rows[:, kept], wanted, rcond=None)
        if (solution >= 0).all():
            break
        del kept[int(np.argmin(solution))]
    found = np.zeros(rows.shape[1])
    found[kept] = solution
    return found


if __name__ == "__main__":
    main()
