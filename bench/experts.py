"""A step of a mixture of experts on one GPU: dmc beside PyTorch, eager and compiled, and products of groups of rows.

`python -m bench.experts prepare DIRECTORY` compiles the step, its prediction, and the kernels of experts, on any
machine; `python -m bench.experts run DIRECTORY`, on one with a GPU, measures all systems in turn, as `bench.gpu_step`
does, and the kernels, as `bench.gpu_kernels` does, and writes `bench/results/experts.json`. What is predicted of a
kernel is its lower bound.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bench.gpu_models import MODELS
from bench.gpu_step import case_name, run
from bench.kernel_cases import CASES
from bench.packed import PACKED
from bench.record import write_record
from dmc.kernels.implementation import implementation_of

RESULTS = Path(__file__).parent / "results" / "experts.json"
MODEL, SYSTEMS = "qwen3_moe", ("eager", "compile", "dmc")
KERNELS = tuple(name for name in CASES if "experts" in name)
_PREDICTED, _KERNELS = "predicted.json", "kernels"


@dataclass(frozen=True)
class Result:
    """One system on one case. agrees: with eager's losses; of a kernel, with float64 and its own bits."""

    case: str
    system: str
    ranks: int
    step_ms: float
    tflops: float
    peak_bytes: int
    predicted_ms: float | None
    agrees: bool | None


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 where a system failed or does not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--machine", default="h100", help="of `prepare`: for which machine the step is planned")
    parser.add_argument("--tuning", type=Path, help="of `prepare`: a table of dmc tune")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.mode == "prepare":
        prepare(options.directory, options.machine, options.tuning)
        return 0
    results = [*_steps(options.directory), *_kernels(options.directory)]
    record = {"device": torch.cuda.get_device_name(), "results": results}
    write_record(options.out, {**record, "results": [vars(each) for each in results]})
    for each in results:
        print(f"{each.case:24} {each.system:8} {each.step_ms:9.3f} ms {each.tflops:6.1f} TFLOP/s  {each.agrees}")
    wanted = len(SYSTEMS) + 2 * len(KERNELS)
    return 0 if len(results) == wanted and all(each.agrees is not False for each in results) else 1


def prepare(directory: Path, machine: str, tuning: Path | None) -> None:
    """Writes what `run` measures."""
    from bench.gpu_compiled import compiled
    from bench.packed import write_packed
    from dmc.machine import machine as machine_named
    from dmc.simulator import simulate

    directory.mkdir(parents=True, exist_ok=True)
    artifact = compiled(MODELS[MODEL], 0.0, machine, tuning)
    write_packed(artifact, (directory / case_name(MODEL, 0.0)).with_suffix(PACKED))
    predicted = simulate(artifact.job, machine_named(machine)).step_ns / 1e6
    (directory / _PREDICTED).write_text(json.dumps(predicted))
    _gpu_kernels("--compile", directory / _KERNELS)


def _steps(directory: Path) -> list[Result]:
    *_, results = run(MODEL, 0.0, SYSTEMS, directory)
    predicted = float(json.loads((directory / _PREDICTED).read_text()))
    return [
        Result(
            case=MODEL,
            system=each.system,
            ranks=1,
            step_ms=each.step_ms,
            tflops=MODELS[MODEL].flops / each.step_ms / 1e9,
            peak_bytes=each.peak_bytes,
            predicted_ms=predicted if each.system == "dmc" else None,
            agrees=each.agrees,
        )
        for each in results
    ]


def _kernels(directory: Path) -> Iterator[Result]:
    """The fastest way of each system for each kernel."""
    found = directory / f"{_KERNELS}.json"
    _gpu_kernels("--run", directory / _KERNELS, "--out", found)
    records: list[dict[str, Any]] = json.loads(found.read_text())["results"]
    for case in KERNELS:
        problem = CASES[case]
        cost = implementation_of(problem).cost(problem)
        for system, way in (("dmc", "dmc"), ("eager", "eager")):
            timed = [each for each in records if (each["case"], each["way"]) == (case, way) and "us" in each]
            if not timed:
                continue
            best = min(timed, key=lambda each: each["us"])
            predicted = best["floor_us"] / 1e3 if "floor_us" in best else None
            tflops, agrees = cost.flops / best["us"] / 1e6, best.get("same")
            yield Result(case, system, 1, best["us"] / 1e3, tflops, cost.bytes, predicted, agrees)


def _gpu_kernels(mode: str, directory: Path, *others: object) -> None:
    command = [sys.executable, "-m", "bench.gpu_kernels", mode, directory, "--cases", *KERNELS, *others]
    subprocess.run([str(word) for word in command], check=False)


if __name__ == "__main__":
    sys.exit(main())
