"""What the models of the GPU benchmarks need of an H200's memory, and what a step takes under tighter caps.

`python -m bench.memory_caps` plans each model's step (bf16-mixed, AdamW with clipping, dropout as its users train it)
for an H200: with everything kept that the backward pass reads, without a cap, under one of 0.6 of torch.compile's peak,
and under caps of 0.75, 0.5 and 0.35 of its own peak. It prints bytes and predicted times, and writes
`bench/results/memory_caps.json`. A cap that cannot be met has the smallest one that can. Nothing is run, and nothing of
this needs a GPU. Models are not initialised, so that even the largest takes little memory. A torch peak is PyTorch's
with torch.compile, of the same step on one H200 (PyTorch 2.11, `bench/results/gpu_step.json`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.gpu_models import MODELS
from bench.record import write_record
from bench.scheduled_steps import step_before
from dmc import dialect
from dmc._mlir import ir
from dmc.analysis.memory.plan import plan_memory
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.reader import read_tasks
from dmc.analysis.tasks.timeline import timeline
from dmc.dialect.labels import kernel_label_of
from dmc.errors import MemoryCapError
from dmc.machine import machine
from dmc.passes.base import parse_pipeline, run_passes
from dmc.program import DEVICE
from dmc.program.labels import RECOMPUTED
from dmc.step_function import find_step

MACHINE = "h200"
SHARES = (0.75, 0.5, 0.35)
# The goal for a step without a cap.
OF_TORCH = 0.6
RESULTS = Path(__file__).parent / "results" / "memory_caps.json"
# What was measured of torch.compile; of several runs the last counts.
MEASURED = Path(__file__).parent / "results" / "gpu_step.json"
TORCH = {
    each["model"]: each["peak_bytes"]
    for each in json.loads(MEASURED.read_text(encoding="utf-8"))["results"]
    if each["system"] == "compile"
}


@dataclass(frozen=True)
class Planned:
    """A step under a cap (0: none). bytes: of its arena, or of the smallest found if it does not fit. ms: predicted.

    what: of the cap. kernels, ms_again: those that run again, and their time. seconds: of dm-keep and dm-schedule.
    """

    what: str
    cap: int
    bytes: int
    fits: bool
    ms: float = 0.0
    kernels: int = 0
    ms_again: float = 0.0
    seconds: float = 0.0


def plan_all(name: str) -> list[Planned]:
    """The step of a model in all ways."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        whole = _planned("everything kept", kernels_of(name, context, without="dm-recompute"), 0)
        free = _planned("none", kernels_of(name, context), 0)
        # Any cap divides large logits.
        text = kernels_of(name, context, cap=free.bytes)
        wanted = _planned(f"{OF_TORCH} of torch.compile", text, int(OF_TORCH * TORCH[name]))
        return [whole, free, wanted, *(_planned(f"{share}", text, int(share * free.bytes)) for share in SHARES)]


def kernels_of(name: str, context: ir.Context, cap: int = 0, without: str = "") -> str:
    """The step with its kernels chosen, before it is decided what leaves and what is kept. without: a pass."""
    return step_before(name, context, "dm-offload", MACHINE, cap, without)


def under_a_cap(text: str, cap: int) -> ir.Module:
    """The step, scheduled under a cap (0: none). Raises MemoryCapError."""
    module, limit = ir.Module.parse(text), f"{{memory_cap={cap}}}"
    run_passes(
        module, parse_pipeline(f"dm-offload{limit},dm-keep{limit},dm-hoist-start,dm-sink-wait,dm-schedule{limit}")
    )
    return module


def _planned(what: str, text: str, cap: int) -> Planned:
    begin = time.perf_counter()
    try:
        module = under_a_cap(text, cap)
    except MemoryCapError as error:
        return Planned(what, cap, error.needed, fits=False, seconds=time.perf_counter() - begin)
    seconds = time.perf_counter() - begin
    graph = read_tasks(module, TaskCosts.of(module, machine(MACHINE)))
    again = [task.ns for task in graph.tasks if kernel_label_of(task.op).endswith(RECOMPUTED)]
    bytes_ = plan_memory(find_step(module)).arenas[DEVICE].bytes
    total = timeline(graph, graph.order).total
    return Planned(what, cap, bytes_, True, total / 1e6, len(again), sum(again) / 1e6, seconds)


def _show(record: dict[str, Any]) -> None:
    columns = ("model", "cap", "GB planned", "of torch.compile", "ms predicted", "of no cap", "kernels again")
    table = Table(*columns, box=None)
    for name, plans in record["models"].items():
        free = next(each for each in plans if each["what"] == "none")
        for each in plans:
            torch_share = f"{each['bytes'] / TORCH[name]:.2f}"
            ends = (f"{each['ms']:.1f}", f"{each['ms'] / free['ms']:.3f}", str(each["kernels"]))
            needed = f"{each['bytes'] / 1e9:.2f}" if each["fits"] else f"needs {each['bytes'] / 1e9:.2f}"
            table.add_row(name, each["what"], needed, torch_share, *(ends if each["fits"] else ("-", "-", "-")))
    Console(width=120).print(table)


def main() -> None:
    """Plans all models, each in a process of its own, and prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        with contextlib.redirect_stdout(io.StringIO()):
            found = plan_all(arguments.one)
        print(json.dumps([asdict(each) for each in found]))
        return
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["models"] if RESULTS.exists() else {}
    for name in arguments.models:
        command = [sys.executable, "-m", "bench.memory_caps", "--one", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        known[name] = json.loads(done.stdout.splitlines()[-1])
        record = {
            "machine": MACHINE,
            "torch_bytes": {name: TORCH[name] for name in MODELS},
            "models": {each: known[each] for each in MODELS if each in known},
        }
        write_record(RESULTS, record)
        _show(record)


if __name__ == "__main__":
    main()
