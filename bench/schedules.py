"""What of communication schedules leave exposed: GPT-2 124M on four H200s, as dmc's machine description has them.

`python -m bench.schedules` plans the step (bf16, AdamW, 8 × 1024 tokens a rank) under dp4, zero2 and zero3 and prints,
for each pipeline, the step time, the communication that no kernel hides, and the device memory; it writes
`bench/results/schedules.json`. Times are `dmc/analysis/tasks/timeline.py`'s and, with `--simulate`, of the simulator
on the programs of all ranks, whose lanes wait for each other as each pipeline has written it (`planned_as_written.py`;
lanes of a plan of dmc wait for bytes only, which is never later). No step is run: nothing of this needs a GPU.

The baselines are pipelines of the same passes: no overlap (a movement is waited for where it starts); DDP (buckets of
25 MB in the order in which gradients are ready, waited for before the optimizer); FSDP (what a layer needs is gathered
while the layer before it runs, in buckets). dm-schedule has to stay within the memory of the smaller of DDP and FSDP.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from rich.console import Console
from rich.table import Table

import dmc
from bench.planned_as_written import planned_as_written
from bench.record import write_record
from dmc import dialect, plans
from dmc._mlir import ir
from dmc.analysis.requests.plan import write_plan
from dmc.analysis.requests.settings import write_settings
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.footprint import footprint
from dmc.analysis.tasks.graph import TaskGraph
from dmc.analysis.tasks.reader import read_tasks
from dmc.analysis.tasks.timeline import busy, timeline
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.machine import machine
from dmc.passes.base import parse_pipeline, run_passes
from dmc.passes.scheduled.form_kernels import FormKernels
from dmc.pipeline import STAGES
from dmc.simulator import simulate
from dmc.simulator.summary import summarise

MACHINE, RANKS = "h200x4", 4
LAYERS, WIDTH, HEADS, VOCABULARY, CONTEXT, BATCH = 12, 768, 12, 50257, 1024, 8  # batch: of each rank
PLANS = {"dp4": plans.data_parallel, "zero2": plans.zero2, "zero3": plans.zero3}
START = "dm-copy-ports,dm-async"
QUEUES = "dm-assign-queues"
BUCKET = f"dm-bucket{{bytes={25 * 2**20}}}"
PRESERVING = f"dm-bucket{{bytes={25 * 2**20} preserve-overlap}}"
OVERLAP = "dm-hoist-start,dm-sink-wait"
# By name, in the order of the table. The first three are the baselines, two of which overlap.
PIPELINES = {
    "no overlap": f"{START},{QUEUES}",
    "DDP: 25 MB buckets, waits at the end": f"{START},{BUCKET},{QUEUES},{OVERLAP}",
    "FSDP: the next layer is gathered": f"{START},{BUCKET},{QUEUES},dm-schedule{{algorithm=prefetch}}",
    "+ dm-hoist-start": f"{START},{QUEUES},dm-hoist-start",
    "+ dm-sink-wait": f"{START},{QUEUES},{OVERLAP}",
    "+ dm-bucket": f"{START},{PRESERVING},{QUEUES},{OVERLAP}",
    "dm-schedule": f"{START},{QUEUES},dm-schedule{{memory-cap=CAP}}",
    "dm-bucket, dm-schedule": f"{START},{PRESERVING},{QUEUES},dm-schedule{{memory-cap=CAP}}",
}
OVERLAPPING = tuple(PIPELINES)[1:3]
RESULTS = Path(__file__).parent / "results" / "schedules.json"
Figures = dict[str, float]


def kernels_of(plan: str) -> str:
    """The text of the step under a plan, with its computation in kernels and its movements as values."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        use_cache=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    model = transformers.GPT2LMHeadModel(config).train()
    tokens = torch.zeros(BATCH * RANKS, CONTEXT, dtype=torch.long)
    example = {"input_ids": tokens, "labels": tokens.clone()}
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        imported = import_step(model, None, dmc.optim.AdamW(lr=1e-3), example, Precision.BF16, 1, 0, context)
        signature = imported.signature
        chosen = dmc.plan(dmc.Mesh(dp=RANKS)).use(PLANS[plan]("dp"))
        resolved = plans.resolve(chosen, signature.state, imported.modules, signature.batch)
        write_plan(imported.module, resolved, signature, "cuda")
        write_settings(imported.module, "cuda", MACHINE, 0)
        passes = [each for stage in STAGES for each in stage.passes]
        run_passes(imported.module, passes[: passes.index(FormKernels()) + 1])
        return imported.module.operation.get_asm(enable_debug_info=True)


def measure(text: str, pipeline: str, simulated: bool) -> Figures:
    """Milliseconds and MiB of a step whose kernels are formed, behind `pipeline`."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        module = ir.Module.parse(text)
        run_passes(module, parse_pipeline(pipeline))
        graph = read_tasks(module, TaskCosts.of(module, machine(MACHINE)))
        return {**_figures(graph), **(_simulated(module) if simulated else {})}


def _figures(graph: TaskGraph) -> Figures:
    played = timeline(graph, graph.order)
    moving = [task for task in graph.tasks if task.is_movement]
    return {
        "step ms": played.total / 1e6,
        "exposed ms": played.exposed / 1e6,
        "compute ms": busy(graph) / 1e6,
        "movement ms": sum(task.ns for task in moving) / 1e6,
        "movements": len(moving),
        "kernels": len(graph.tasks) - len(moving),
        "MiB": footprint(graph, graph.order).peak / 2**20,
        "bytes": footprint(graph, graph.order).peak,
    }


def _simulated(module: ir.Module) -> Figures:
    job = planned_as_written(module)
    found = summarise(simulate(job, machine(MACHINE)))
    arena = max(program.arenas["device"] for program in job.programs)
    return {
        "simulated step ms": found.step_ns / 1e6,
        "simulated exposed ms": found.exposed.communication / 1e6,
        "arena MiB": arena / 2**20,
    }


def _pipelines(text: str, simulated: bool) -> Iterator[tuple[str, Figures]]:
    cap = 0.0
    for name, pipeline in PIPELINES.items():
        found = measure(text, pipeline.replace("CAP", str(int(cap))), simulated)
        if name in OVERLAPPING:
            cap = min(cap or found["bytes"], found["bytes"])
        yield name, found


def _print(plan: str, found: dict[str, Figures]) -> None:
    columns = [column for column in next(iter(found.values())) if column != "bytes"]
    table = Table("pipeline", *columns, title=f"GPT-2 124M under {plan}, {MACHINE}")
    for name, figures in found.items():
        table.add_row(name, *(f"{figures[each]:.3f}" if "ms" in each else f"{figures[each]:.0f}" for each in columns))
    Console(width=200).print(table)


def main() -> None:
    """Measures every pipeline under every plan, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=list(PLANS))
    parser.add_argument("--simulate", action="store_true", help="plan all ranks and play them, too")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    record: dict[str, Any] = {}
    for plan in options.plans:
        record[plan] = dict(_pipelines(kernels_of(plan), options.simulate))
        _print(plan, record[plan])
    write_record(options.out, {"machine": MACHINE, "plans": record})


if __name__ == "__main__":
    main()
