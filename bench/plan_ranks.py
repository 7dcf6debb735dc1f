"""How planning grows with ranks: a GPT of four layers under data parallelism, ZeRO-3, and ZeRO-3 with tensors split.

`python -m bench.plan_ranks` plans for 1, 4, 16 and 64 ranks, each in a process of its own, and prints seconds of a
processor of stage planned, of reading form planned and of the proof, and bytes of form planned and of the plan in a
file, unpacked and packed. It writes `bench/results/plan_ranks.json`. 64 ranks should take at most 1.5 times what 4 do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import torch
from rich.console import Console
from rich.table import Table

import dmc
from bench.placement_time import state_plan, tensor_parallel
from bench.record import write_record
from dmc import dialect, pipeline, plans
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.dataflow.recorder import Recorder
from dmc.forms import PLANNED, SCHEDULED, verify_form
from dmc.garbage import uncollected
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.memo import remembering
from dmc.passes.base import PassManagerOptions, run_passes
from dmc.proof import verify
from examples.gpt import GPT, Shape
from tests.models.case import token_batch, token_loss

RANKS = (1, 4, 16, 64)
VOCABULARY, CONTEXT, WIDTH, LAYERS, BATCH = 128, 32, 64, 4, 64
OPTIONS = PassManagerOptions(verify_each=False)
PLANS: dict[str, Callable[[int], plans.Plan]] = {
    "dp": lambda ranks: dmc.plan(dmc.Mesh(dp=ranks)).use(plans.data_parallel("dp")),
    "zero3": lambda ranks: dmc.plan(dmc.Mesh(dp=ranks)).use(plans.zero3("dp")),
    "tp × zero3": lambda ranks: (
        dmc.plan(dmc.Mesh(dp=-(-ranks // 2), tp=min(ranks, 2))).use(plans.zero3("dp")).use(tensor_parallel())
    ),
}
RESULTS = Path(__file__).parent / "results" / "plan_ranks.json"
Answer = TypeVar("Answer")


def measure(name: str, ranks: int) -> dict[str, float]:
    """Seconds and bytes of a plan."""
    torch.manual_seed(0)
    model = GPT(Shape(vocabulary=VOCABULARY, context=CONTEXT, width=WIDTH, layers=LAYERS))
    optimizer, example = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0), token_batch(0, BATCH, CONTEXT, VOCABULARY)
    found: dict[str, float] = {}

    def timed(what: str, work: Callable[[], Answer]) -> Answer:
        begin = time.process_time()
        answer = work()
        found[what] = time.process_time() - begin
        return answer

    with uncollected(), ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        imported = import_step(model, token_loss, optimizer, example, Precision.FP32, 1, 0, context)
        state_plan(imported, PLANS[name](ranks))
        module, recorder = imported.module, Recorder()
        pipeline.run(module, to_form=SCHEDULED.name, options=OPTIONS, witness=recorder.see)
        (stage,) = pipeline.stages_between(PLANNED.name, PLANNED.name)[-1:]
        with remembering():
            timed("planned", lambda: run_passes(module, stage.passes, OPTIONS))
            timed("form", lambda: verify_form(module, stage.form))
        job = timed("read", lambda: job_of(module))
        recorder.see(PLANNED.name, module)
        dataflow = recorder.dataflow(module, job)
        timed("proof", lambda: verify(job, dataflow=dataflow))
        text = str(module)
    found["total"] = sum(found.values())
    sizes = {"text": len(text), "plan": len(msgspec.msgpack.encode(job)), "packed": len(job.to_bytes())}
    return {**found, **sizes, "commands": len(job.classes[0].program.commands)}


def _measure_alone(name: str, ranks: int) -> dict[str, float]:
    program = f"import json; from bench.plan_ranks import measure; print(json.dumps(measure({name!r}, {ranks})))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _print(found: Mapping[str, Mapping[int, Mapping[str, float]]]) -> None:
    table = Table("plan", "ranks", *next(iter(next(iter(found.values())).values())))
    for name, rows in found.items():
        for ranks, row in rows.items():
            table.add_row(name, str(ranks), *(f"{x:.2f}" if isinstance(x, float) else f"{x:,}" for x in row.values()))
    Console(width=140).print(table)


def main() -> None:
    """Measures each plan and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", nargs="+", type=int, default=RANKS)
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=list(PLANS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found: dict[str, dict[int, dict[str, float]]] = {
        name: {ranks: _measure_alone(name, ranks) for ranks in options.ranks} for name in options.plans
    }
    _print(found)
    record: dict[str, Any] = {"plans": found}
    write_record(options.out, record)


if __name__ == "__main__":
    main()
