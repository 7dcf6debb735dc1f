"""GPT-2 124M on several GPUs, in bf16 with f32 state: dmc beside DDP and FSDP2 under torch.compile, in one run.

`python -m bench.multi_gpu prepare DIRECTORY` compiles plans and batches, on any machine, and predicts their steps.
`torchrun --nproc-per-node N -m bench.multi_gpu run DIRECTORY --out FILE` measures those with N ranks (1: a step without
a mesh), and adds to FILE: for each model, plan, system, number of ranks and batch a GPU the median step (of five rounds
of ten), the host's time, the peak memory of a rank, and for dmc what was predicted and `exposed_ms`: the step less the
same step in which each rank copies its own part instead (but for integers), replayed as a graph of its own. `--apart`
also measures `movements_ms`, a step of these movements alone, and `serial_ms`, one without overlap: all in one lane.
`… collect DIRECTORY` compares the losses in files of a directory and writes `bench/results/multi_gpu.json`, with
`efficiency`: the step of one rank with the same batch a GPU, of the same system, over this one. `--warm` only compiles
what PyTorch compiles, for its cache. `--dropout 0.1` does all that for the model with dropout.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

import dmc
from bench.gpu_clock import clocked
from bench.gpu_models import MODELS, empty
from bench.gpu_peers import CLIP, DECAY, RATE
from bench.gpu_step import start
from bench.multi_gpu_peers import MODEL, PEERS, mean, peer_step
from bench.record import write_record
from dmc.program.tuning import CANDIDATES, tables

RESULTS = Path(__file__).parent / "results" / "multi_gpu.json"
PLANS = ("dp", "zero2")
BATCHES, COMPARED = 4, 6
# Of a loss in bf16: six steps of rounding each.
TOLERANCE = 5e-3
Step = Callable[[int], Any]


@dataclass(frozen=True)
class Result:
    """One system. losses: of the first steps. agrees: with those of dmc, or the first found. step_ms: a median.

    efficiency: of weak scaling.
    """

    model: str
    plan: str
    system: str
    ranks: int
    batch_per_rank: int
    step_ms: float
    host_us: float
    peak_bytes: int
    losses: tuple[float, ...]
    exposed_ms: float | None = None
    movements_ms: float | None = None
    serial_ms: float | None = None
    predicted_ms: float | None = None
    device: str = ""
    agrees: bool | None = None
    efficiency: float | None = None


def main() -> int:
    """Does what the command line asks for; the exit code of `collect` is 1 where losses differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run", "collect"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ranks", nargs="+", type=int, default=(1, 2, 4))
    parser.add_argument("--batches", nargs="+", type=int, default=(16, 8, 4, 2))
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=PLANS)
    parser.add_argument("--systems", nargs="+", choices=("dmc", *PEERS), default=("dmc", *PEERS))
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--machine", default="h200", help="with one of the GPUs that the plans are for")
    parser.add_argument("--candidates", action="store_true", help="for `dmc tune`, of kernels that dmc's table lacks")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        for batch, ranks in product(options.batches, options.ranks):
            for plan in _plans(options, ranks):
                prepare(plan, ranks, batch, options)
        return 0
    return collect(options.directory, options.out) if options.mode == "collect" else run(options)


def _model(dropout: float) -> str:
    return f"{MODEL}_dropout" if dropout else MODEL


def _path(directory: Path, plan: str, ranks: int, batch: int, dropout: float) -> Path:
    return directory / f"{_model(dropout)}@{plan}@{ranks}@{batch}.dmc"


def prepare(plan: str, ranks: int, batch: int, options: argparse.Namespace) -> None:
    """Compiles one case, its parameters zero and without the texts of its forms, so that the file packs well."""
    from dmc.api import compile_artifact
    from dmc.cli.tune import write_candidates
    from dmc.machine import machine, machine_for
    from dmc.simulator import simulate

    path = _path(options.directory, plan, ranks, batch, options.dropout)
    on, begin = machine_for(options.machine, ranks), time.perf_counter()
    if path.exists():
        return
    mesh, ways = dmc.Mesh(dp=ranks), {"dp": dmc.plans.data_parallel, "zero2": dmc.plans.zero2}
    artifact = compile_artifact(
        empty(MODELS[MODEL].build(options.dropout)),
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, clip_grad_norm=CLIP),
        example=batch_of(0, ranks * batch),
        precision="bf16-mixed",
        mesh=mesh if ranks > 1 else None,
        plan=dmc.plan(mesh).use(ways[plan]("dp")) if ranks > 1 else None,
        target="cuda",
        machine=on,
        verify=False,
    )
    if options.candidates:
        write_candidates(artifact, path.with_suffix(CANDIDATES), tables()[options.machine].choices)
    replace(artifact, ir={}).write(path)
    predicted = simulate(artifact.job, machine(on)).step_ns
    path.with_suffix(".json").write_text(json.dumps({"predicted_ms": predicted / 1e6}))
    print(f"{path.name}: {time.perf_counter() - begin:.0f} s, {path.stat().st_size / 1e6:.1f} MB", flush=True)


def batch_of(seed: int, size: int) -> dict[str, torch.Tensor]:
    """A global batch."""
    tokens = torch.randint(50257, (size, 1024), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": tokens, "labels": tokens.clone()}


def own_batches(rank: int, ranks: int, batch: int) -> list[dict[str, torch.Tensor]]:
    """A rank's rows of the global batches."""
    rows = slice(rank * batch, (rank + 1) * batch)
    return [
        {name: value[rows].contiguous() for name, value in batch_of(seed, ranks * batch).items()}
        for seed in range(BATCHES)
    ]


def run(options: argparse.Namespace) -> int:
    """Measures what was asked for, one after another; the first rank writes after each."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    for batch, system in product(options.batches, options.systems):
        given = own_batches(rank, ranks, batch)
        for result in _of_system(system, given, ranks, batch, options):
            _tell(result, rank, None if options.warm else options.out)
    return 0


def _tell(result: Result, rank: int, out: Path | None) -> None:
    gc.collect()
    torch.cuda.empty_cache()
    if rank == 0 and out is not None:
        print(json.dumps(asdict(result)), flush=True)
        _write(out, [result])


def _plans(options: argparse.Namespace, ranks: int) -> Sequence[str]:
    return options.plans if ranks > 1 else ("alone",)


def collect(directory: Path, out: Path) -> int:
    """Joins what was measured, and says of each result whether its losses are those of the others."""
    files = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    found = [Result(**each) for file in files for each in file.get("results", ()) if "batch_per_rank" in each]
    found.sort(key=lambda each: (each.ranks, -each.batch_per_rank, each.system != "dmc", each.system, each.plan))
    first: dict[tuple[str, int, int], Result] = {}
    for each in found:
        first.setdefault((each.model, each.ranks, each.batch_per_rank), each)
    alone = {(each.model, each.system, each.batch_per_rank): each.step_ms for each in found if each.ranks == 1}
    results = [
        replace(
            each,
            agrees=_agrees(each, first[each.model, each.ranks, each.batch_per_rank]),
            efficiency=alone.get((each.model, each.system, each.batch_per_rank), 0.0) / each.step_ms or None,
        )
        for each in found
    ]
    _write(out, results)
    return 0 if all(each.agrees for each in results) else 1


def _agrees(result: Result, other: Result) -> bool:
    return all(abs(a - b) <= TOLERANCE * abs(b) for a, b in zip(result.losses, other.losses, strict=True))


def _of_system(
    system: str, given: list[dict[str, torch.Tensor]], ranks: int, batch: int, options: argparse.Namespace
) -> Sequence[Result]:
    if system in PEERS:
        return [_peer(system, given, ranks, batch, options)]
    paths = [_path(options.directory, plan, ranks, batch, options.dropout) for plan in _plans(options, ranks)]
    return [_dmc(path, given, ranks, batch, options.apart) for path in paths if path.exists()]


def _dmc(path: Path, given: list[dict[str, torch.Tensor]], ranks: int, batch: int, apart: bool) -> Result:
    from bench.local_copies import without_others
    from dmc.lowering.stream.one_lane import in_one_lane
    from dmc.program import Await, Collective, Job, Record
    from dmc.runtime import Artifact, Step
    from dmc.runtime.world.launch import world_from_environment

    artifact, world = Artifact.read(path), world_from_environment(os.environ)
    free, _ = torch.cuda.mem_get_info()
    step = Step(artifact, "cuda", world)
    names = [spec.name for spec in step.signature.batch]
    arrays = [{name: each[name].numpy() for name in names} for each in given]
    state = step.state_dict()
    state["model"].update(start(MODEL))
    step.load_state_dict(state)
    losses = tuple(float(step.call_flat(arrays[index % BATCHES])) for index in range(COMPARED))
    model, plan, *_ = path.name.split("@")
    empty = Result(model, plan, "dmc", ranks, batch, 0.0, 0.0, 0, losses)
    result = _measured(empty, lambda index: step.call_flat(arrays[index % BATCHES]))
    left, _ = torch.cuda.mem_get_info()
    step.close()
    predicted = json.loads(path.with_suffix(".json").read_text())["predicted_ms"]
    result = replace(result, peak_bytes=free - left, predicted_ms=predicted)
    if ranks == 1:
        return replace(result, exposed_ms=0.0)

    def alone(job: Job) -> float:
        other = Step(replace(artifact, job=job), "cuda", world)
        # Zeros take less power, and so less time.
        other.load_state_dict(state)
        measured = _measured(empty, lambda index: other.call_flat(arrays[index % BATCHES]))
        other.close()
        return measured.step_ms

    result = replace(result, exposed_ms=result.step_ms - alone(without_others(artifact.job)))
    if not apart:
        return result
    movements_ms = alone(artifact.job.only(Collective, Record, Await))
    return replace(result, movements_ms=movements_ms, serial_ms=alone(in_one_lane(artifact.job)))


def _peer(
    system: str, given: list[dict[str, torch.Tensor]], ranks: int, batch: int, options: argparse.Namespace
) -> Result:
    torch.compiler.reset()
    step = peer_step(system, ranks, options.dropout)
    on_gpu = [{name: value.cuda() for name, value in each.items()} for each in given]
    losses: list[float] = []
    for index in range(COMPARED):
        loss = step(on_gpu[index % BATCHES])
        losses.append(float(mean(loss, ranks)))
    plan = PEERS[system] if ranks > 1 else "alone"
    empty = Result(_model(options.dropout), plan, system, ranks, batch, 0.0, 0.0, 0, tuple(losses))
    if options.warm:
        return empty
    torch.cuda.reset_peak_memory_stats()
    result = _measured(empty, lambda index: step(on_gpu[index % BATCHES]))
    return replace(result, peak_bytes=torch.cuda.max_memory_allocated())


def _measured(empty: Result, step: Step) -> Result:
    step_ms, host_us = clocked(step)
    return replace(empty, step_ms=step_ms, host_us=host_us, device=torch.cuda.get_device_name())


def _write(path: Path, results: Sequence[Result]) -> None:
    """Adds results in place of older ones of the same cases."""
    known = json.loads(path.read_text())["results"] if path.exists() else []
    case = ("model", "plan", "system", "ranks", "batch_per_rank")
    new = [asdict(each) for each in results]
    cases = {tuple(each[name] for name in case) for each in new}
    kept = [each for each in known if tuple(each[name] for name in case) not in cases]
    write_record(path, {"results": [*kept, *new]})


if __name__ == "__main__":
    sys.exit(main())
