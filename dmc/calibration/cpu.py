"""What this CPU attains: peaks from PyTorch's products and sums, and the share of them that kernels of a step attain.

A step takes Σ (time at the peak ÷ share) + launches × floor. Steps are made as they are, and with all launches of one
kind issued several times, so that the difference is what kernels of that kind take: equations for the shares and the
floor, solved by least squares of relative errors. What is issued again finds its operands in the cache, so kinds come
out somewhat too fast; the equations of whole steps hold against that. Where products are faster than PyTorch's, as on
some processors, these are no peak, and the peak is raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import torch

from dmc import dialect
from dmc._mlir import ir
from dmc.api import CompiledStep
from dmc.calibration.fits import solved
from dmc.calibration.steps import drawn_batch
from dmc.forms import SCHEDULED
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.lowering.stream.program import compile_job
from dmc.machine import Copying, Device, Floor, Machine, Rates, Shares, at_peak_ns
from dmc.pipeline import stem
from dmc.program import Command, Job, Kernel, Launch
from dmc.runtime.files.artifact import Artifact
from dmc.target import CPU

FLOOR = "launch"
_HERE = "measured by dmc calibrate"
_TIMES = 5
# Kinds that take a smaller share of a step are lost in noise.
_LEAST = 0.05
# Something else may run for a while.
_TRIES, _SECONDS = 40, 1.5
# The kind whose peak is that of PyTorch's products, and how often it is raised.
_PRODUCT, _RAISES = "matmul", 4
# In bytes: arrays of this size are about as large as those of small models. A product's rows and columns.
_ARRAY, _SIZE = 16 << 20, 1024


@dataclass(frozen=True)
class Equation:
    """Nanoseconds of a step, or of its kernels of one kind. parts: time at the peak by kind, and the launches."""

    parts: Mapping[str, float]
    measured: float


@dataclass(frozen=True)
class Timed:
    """Nanoseconds of these kernels, one after another."""

    kernels: Sequence[Kernel]
    ns: float


def measured(base: Machine, artifacts: Sequence[Artifact]) -> Machine:
    """The machine `base` with what this CPU attains, with the steps of one rank in `artifacts`."""
    found = msgspec.structs.replace(base, device=_peaks(base.device))
    timed = [each for artifact in artifacts for each in _timed(artifact)]
    return fitted(found, timed, f"{_HERE}: {len(timed)} equations of {len(artifacts)} steps")


def fitted(peaks: Machine, timed: Sequence[Timed], source: str, raises: int = _RAISES) -> Machine:
    """The machine with the shares of its peaks that kernels attain, at most 1, and what each takes at least.

    peaks: the machine with measured rates, which products may exceed. timed: steps, and their kernels of one kind.
    source: of the shares, for the description. raises: how often the rates may be raised to what products attain.
    """
    device = peaks.device
    equations = [Equation(_parts(peaks, each.kernels), each.ns) for each in timed]
    shares, floor = solution(equations, device.efficiency.shares)
    if shares[_PRODUCT] > 1 and raises:
        return fitted(_raised(peaks, shares[_PRODUCT]), timed, source, raises - 1)
    shares = {kind: min(1.0, share) for kind, share in shares.items()}
    device = msgspec.structs.replace(device, efficiency=Shares(shares, source), launch=Floor(floor, source))
    return msgspec.structs.replace(peaks, device=device)


def _raised(peaks: Machine, factor: float) -> Machine:
    vector = peaks.device.vector
    rates = {name: rate * factor for name, rate in vector.rates.items()}
    source = f"{vector.source.partition(', raised')[0]}, raised to what steps attain"
    return msgspec.structs.replace(peaks, device=msgspec.structs.replace(peaks.device, vector=Rates(rates, source)))


def solution(equations: Sequence[Equation], base: Mapping[str, float]) -> tuple[dict[str, float], float]:
    """The shares by kind, and the floor in nanoseconds; those of `base` for kinds that no equation tells."""
    columns = (*base, FLOOR)
    rows = np.array([[equation.parts.get(column, 0.0) for column in columns] for equation in equations])
    times = np.array([equation.measured for equation in equations])
    found = dict(zip(columns, solved(rows / times[:, None], np.ones(len(equations))).tolist(), strict=True))
    floor = found.pop(FLOOR)
    return {kind: round(1 / value, 4) if value else base[kind] for kind, value in found.items()}, round(floor)


def _peaks(device: Device) -> Device:
    """The device with the rates of PyTorch's products, and the bandwidth of its sums and copies."""
    rates = dict(device.vector.rates)
    for name, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        left = torch.rand(_SIZE, _SIZE, dtype=dtype)
        rates[name] = 2 * _SIZE**3 / _fastest(lambda left=left: left @ left)
    # Narrower types are widened first; integers have vectors as wide.
    rates |= dict.fromkeys(("bf16", "f16", "int"), rates["f32"] / 2)
    one, two = torch.rand(_ARRAY // 4), torch.rand(_ARRAY // 4)
    made = torch.empty_like(one)
    summed = 3 * _ARRAY / _fastest(lambda: torch.add(one, two, out=made))
    copied = _ARRAY / _fastest(lambda: made.copy_(one))
    memory = msgspec.structs.replace(device.memories["device"], bandwidth=summed, source=f"{_HERE}: sums of 16 MiB")
    source = f"{_HERE}: copies of 16 MiB; latency assumed"
    copies = {path: Copying(copied, each.latency_ns, source) for path, each in device.copies.items()}
    return msgspec.structs.replace(
        device,
        vector=Rates(rates, f"{_HERE}: products of PyTorch in f32 and f64; others assumed half of f32"),
        memories={**device.memories, "device": memory},
        copies=copies,
    )


def _fastest(work: Callable[[], Any]) -> float:
    """Seconds."""
    times, first = list[float](), time.perf_counter()
    while len(times) < _TRIES or time.perf_counter() - first < _SECONDS:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def _timed(artifact: Artifact) -> Iterator[Timed]:
    job, batch = artifact.job, drawn_batch(artifact.signature)
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        code = compile_kernels(ir.Module.parse(artifact.ir[stem(SCHEDULED)]), job.kernels, CPU)
    launched = [job.kernels[each.kernel] for each in job.programs[0].commands if isinstance(each, Launch)]
    step = _step_ns(artifact, batch)
    yield Timed(launched, step)
    for kind in sorted({kernel.kind for kernel in launched}):
        longer = _repeated(job, kind)
        again = _step_ns(replace(artifact, job=longer, modules={"cpu": compile_job(longer, code, CPU).data}), batch)
        took = (again - step) / (_TIMES - 1)
        if took > _LEAST * step:
            yield Timed([kernel for kernel in launched if kernel.kind == kind], took)


def _parts(machine: Machine, kernels: Sequence[Kernel]) -> dict[str, float]:
    parts: dict[str, float] = {FLOOR: len(kernels)}
    for kernel in kernels:
        parts[kernel.kind] = parts.get(kernel.kind, 0.0) + at_peak_ns(machine, kernel)
    return parts


def _repeated(job: Job, kind: str) -> Job:
    """The job with the launches of a kind issued several times: it computes nonsense, for as long."""
    commands: list[Command] = []
    for command in job.program(0).commands:
        is_meant = isinstance(command, Launch) and job.kernels[command.kernel].kind == kind
        commands += [command] * (_TIMES if is_meant else 1)
    return job.mapped(lambda program: msgspec.structs.replace(program, commands=tuple(commands)))


def _step_ns(artifact: Artifact, batch: Mapping[str, np.ndarray]) -> float:
    """The fastest of some steps: what else runs only makes a step longer."""
    step = CompiledStep(artifact)
    seconds = _fastest(lambda: float(step.call_flat(batch)))
    step.close()
    return seconds * 1e9
