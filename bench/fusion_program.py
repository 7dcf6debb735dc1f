"""Fusion by an integer program beside the greedy one: bytes through device memory, launches, predicted time.

The program (`bench/fusion_optimum/`) chooses, of the kernels that the greedy fusion's rules allow, those that move the
fewest bytes together. `python -m bench.fusion_program` compiles GPT-2 124M (16 × 1024 tokens), BERT-large (32 × 512)
and the Llama-like 1.1B (4 × 2048), bf16-mixed, AdamW with clipping, dropout as their users train them, for an H200,
fused in both ways, and plays each plan in the simulator. It prints what a step takes, and writes
`bench/results/fusion_program.json`. Nothing is run, and nothing of this needs a GPU.

bytes: that all kernels read and write. pass_s: seconds of dm-form-kernels. Of the program: the pieces into which a step
is divided, those that are distinct, and so solved, those whose candidates are all kernels that are possible, and the
gap: by how much the cost may be above that of the best choice of candidates.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from bench.fusion_optimum.in_place import fused_optimally
from bench.fusion_optimum.solve import Solved
from bench.gpu_models import MODELS
from bench.record import write_record
from bench.scheduled_steps import step_before
from dmc import dialect, pipeline
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.machine import cost_table_hash, machine
from dmc.passes.base import run_passes
from dmc.passes.scheduled.form_kernels import FormKernels
from dmc.program import Launch
from dmc.simulator import simulate

MACHINE = "h200"
CASES = ("gpt2_124m", "bert_large", "llama_1b")
WAYS: tuple[Literal["greedy", "optimal"], ...] = ("greedy", "optimal")
RESULTS = Path(__file__).parent / "results" / "fusion_program.json"
_SCHEDULED = next(stage for stage in pipeline.STAGES if stage.form.name == "scheduled").passes
_FIRST = _SCHEDULED.index(FormKernels())


def measure(name: str) -> dict[str, dict[str, Any]]:
    """The step of a model, fused in both ways."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        text = step_before(name, context, FormKernels.name, MACHINE)
        return {way: _fused(text, way) for way in WAYS}


def _fused(text: str, way: Literal["greedy", "optimal"]) -> dict[str, Any]:
    module, found = ir.Module.parse(text), list[Solved]()
    with contextlib.nullcontext(found) if way == "greedy" else fused_optimally(MACHINE) as found:
        begin = time.perf_counter()
        run_passes(module, [FormKernels()])
        seconds = time.perf_counter() - begin
    run_passes(module, _SCHEDULED[_FIRST + 1 :])
    pipeline.run(module, from_form="scheduled")
    job = job_of(module)
    launched = [each.kernel for each in job.programs[0].commands if isinstance(each, Launch)]
    return {
        "bytes": sum(job.kernels[each].traffic for each in launched),
        "launches": len(launched),
        "step_ms": round(simulate(job, machine(MACHINE)).step_ns / 1e6, 3),
        "pass_s": round(seconds, 1),
        **(_of_program(found[0]) if found else {}),
    }


def _of_program(solved: Solved) -> dict[str, Any]:
    return {
        "pieces": solved.pieces,
        "distinct": solved.distinct,
        "complete": solved.complete,
        "kept": solved.kept,
        "gap": round(solved.gap, 6),
    }


def _show(record: dict[str, Any]) -> None:
    table = Table("model", "fusion", "GB", "launches", "ms predicted", "s of the pass", "pieces", "distinct", "gap")
    for name, ways in record["models"].items():
        for way, each in ways.items():
            program = [str(each[key]) for key in ("pieces", "distinct", "gap") if key in each]
            table.add_row(
                *(name, way, f"{each['bytes'] / 1e9:.3f}", str(each["launches"])),
                *(f"{each['step_ms']:.3f}", f"{each['pass_s']:.1f}", *program),
            )
    Console(width=120).print(table)


def main() -> None:
    """Measures all models, each in a process of its own, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=CASES, help=f"of {', '.join(MODELS)}")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        with contextlib.redirect_stdout(io.StringIO()):
            found = measure(options.one)
        print(json.dumps(found))
        return
    models: dict[str, Any] = {}
    for name in options.models:
        command = [sys.executable, "-m", "bench.fusion_program", "--one", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        models[name] = json.loads(done.stdout.splitlines()[-1])
    record = {"machine": MACHINE, "costs": cost_table_hash(machine(MACHINE)), "models": models}
    write_record(options.out, record)
    _show(record)


if __name__ == "__main__":
    main()
