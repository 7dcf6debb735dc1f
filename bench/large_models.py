"""Llama of width 2048 on four GPUs, split in several ways: dmc beside FSDP2, DDP and PyTorch's tensor parallelism.

`python -m bench.large_models prepare DIRECTORY` compiles the plans, on any machine, and predicts their steps.
`torchrun --nproc-per-node 4 -m bench.large_models run DIRECTORY --out FILE` measures these and the peers, on the same
global batch, and adds to FILE: for each system and plan the median step (of five rounds of ten), the peak memory of a
rank, the losses of the first steps, and for dmc what was predicted. `… collect FILE` says of each result whether its
losses are those of the first, and prints ratios. Systems that fail are kept with the reason.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import dmc
from bench.collected import add as collected_add
from bench.collected import all_agree, collected
from bench.gpu_clock import clocked
from bench.gpu_models import empty, llama
from bench.gpu_peers import CLIP, DECAY, RATE
from bench.large_models_peers import PEERS, peer_step
from bench.seeded import seeded
from dmc.plans.builder import Plan

RESULTS = Path(__file__).parent / "results" / "large_models.json"
MODEL, RANKS, ROWS, LENGTH, CLASSES = "llama_2048x12", 4, 16, 2048, 32000
BATCHES, COMPARED = 4, 6


def _plans() -> dict[str, Plan]:
    ready, both = dmc.plans, dmc.Mesh(dp=2, tp=2)
    tensor = ready.megatron_llama("tp", sequence_parallel=True)
    return {
        "zero2": dmc.plan(dmc.Mesh(dp=4)).use(ready.zero2("dp")),
        "zero3": dmc.plan(dmc.Mesh(dp=4)).use(ready.zero3("dp")),
        "tp4_sp": dmc.plan(dmc.Mesh(tp=4)).use(tensor),
        "zero2_tp2_sp": dmc.plan(both).use(ready.zero2("dp")).use(tensor),
    }


@dataclass(frozen=True)
class Result:
    """One system on one global batch. peak_bytes: of a rank. agrees: whether its losses are those of the first."""

    model: str
    plan: str
    system: str
    ranks: int
    tokens_per_rank: int
    step_ms: float = 0.0
    peak_bytes: int = 0
    losses: tuple[float, ...] = ()
    predicted_ms: float | None = None
    agrees: bool | None = None
    failed: str = ""
    device: str = ""


def main() -> int:
    """Does what the command line asks for; the exit code of `collect` is 1 where losses differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run", "collect"))
    parser.add_argument("directory", type=Path, help="of `collect`: a file of results")
    parser.add_argument("--plans", nargs="+", choices=tuple(_plans()), default=tuple(_plans()))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    parser.add_argument("--machine", default="h100", help="with one of the GPUs that the plans are for")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.mode == "collect":
        return collect(options.directory)
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        for name in options.plans:
            prepare(name, options)
        return 0
    return run(options)


def prepare(name: str, options: argparse.Namespace) -> None:
    """Compiles one plan, its parameters zero and without the texts of its forms, so that the file packs well."""
    from dmc.api import compile_artifact
    from dmc.machine import machine, machine_for
    from dmc.simulator import simulate

    path, on, begin = options.directory / f"{name}.dmc", machine_for(options.machine, RANKS), time.perf_counter()
    artifact = compile_artifact(
        empty(llama(12, 32, 8).build(0.0)),
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, clip_grad_norm=CLIP),
        example=batch_of(0),
        precision="bf16-mixed",
        plan=_plans()[name],
        target="cuda",
        machine=on,
        verify=False,
    )
    replace(artifact, ir={}).write(path)
    predicted = simulate(artifact.job, machine(on)).step_ns / 1e6
    path.with_suffix(".json").write_text(json.dumps({"predicted_ms": predicted}))
    size = path.stat().st_size / 1e6
    print(f"{name}: {predicted:.1f} ms predicted; {time.perf_counter() - begin:.0f} s, {size:.1f} MB", flush=True)


def batch_of(seed: int) -> dict[str, torch.Tensor]:
    """A global batch."""
    tokens = torch.randint(CLASSES, (ROWS, LENGTH), generator=torch.Generator().manual_seed(seed))
    return {"input_ids": tokens, "labels": tokens.clone()}


def own_batches(rank: int, parts: int) -> list[dict[str, torch.Tensor]]:
    """A rank's rows of the global batches, which are split into so many parts."""
    size, part = ROWS // parts, rank * parts // RANKS
    rows = slice(part * size, (part + 1) * size)
    return [{name: value[rows].contiguous() for name, value in batch_of(seed).items()} for seed in range(BATCHES)]


def run(options: argparse.Namespace) -> int:
    """Measures one system after another; the first rank writes after each."""
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    runs: list[Callable[[], Result]] = []
    for plan in options.plans:
        path = options.directory / f"{plan}.dmc"
        if path.exists():
            runs.append(lambda path=path: _dmc(path, rank))
    runs += [lambda system=system: _peer(system, rank) for system in options.peers]
    for each in runs:
        result = each()
        gc.collect()
        torch.cuda.empty_cache()
        if rank == 0:
            print(json.dumps(asdict(result)), flush=True)
            add(options.out, result)
    return 0


def _dmc(path: Path, rank: int) -> Result:
    from dmc.runtime import Artifact, Step
    from dmc.runtime.world.launch import world_from_environment

    plan = path.stem
    empty_result = Result(MODEL, plan, "dmc", RANKS, ROWS * LENGTH // RANKS, device=torch.cuda.get_device_name())
    given = own_batches(rank, _plans()[plan].mesh.axis_size("dp") if "dp" in _plans()[plan].mesh.axes else 1)
    free, _ = torch.cuda.mem_get_info()
    step = Step(Artifact.read(path), "cuda", world_from_environment(os.environ))
    names = [spec.name for spec in step.signature.batch]
    arrays = [{name: each[name].numpy() for name in names} for each in given]
    state = step.state_dict()
    state["model"].update(seeded(llama(12, 32, 8).build))
    step.load_state_dict(state)
    losses = tuple(float(step.call_flat(arrays[index % BATCHES])) for index in range(COMPARED))
    step_ms, _ = clocked(lambda index: step.call_flat(arrays[index % BATCHES]))
    left, _ = torch.cuda.mem_get_info()
    step.close()
    predicted = json.loads(path.with_suffix(".json").read_text())["predicted_ms"]
    return replace(empty_result, step_ms=step_ms, peak_bytes=free - left, losses=losses, predicted_ms=predicted)


def _peer(system: str, rank: int) -> Result:
    result = Result(MODEL, system, system, RANKS, ROWS * LENGTH // RANKS, device=torch.cuda.get_device_name())

    def made() -> tuple[Any, list[dict[str, torch.Tensor]]]:
        step = peer_step(system, llama(12, 32, 8).build, RANKS)
        return step, own_batches(rank, step.parts)

    return peer_measured(result, made, COMPARED)


def peer_measured(
    result: Result, made: Callable[[], tuple[Any, list[dict[str, torch.Tensor]]]], compared: int
) -> Result:
    """`result` with what a system of PyTorch took; or why it failed. made: its step, and the batches of this rank."""
    torch.compiler.reset()
    try:
        step, given = made()
        on_gpu = [{name: value.cuda() for name, value in each.items()} for each in given]
        losses = tuple(float(step(on_gpu[index % len(on_gpu)])) for index in range(compared))
        torch.cuda.reset_peak_memory_stats()
        step_ms, _ = clocked(lambda index: step(on_gpu[index % len(on_gpu)]))
    except RuntimeError as error:
        return replace(result, failed=str(error)[:500])
    return replace(result, step_ms=step_ms, peak_bytes=torch.cuda.max_memory_allocated(), losses=losses)


def collect(out: Path) -> int:
    """Says of each result whether its losses are those of the first of its model, and prints the table."""
    pairs = collected(out, Result, lambda each: (each.model, each.ranks))
    for each, base in pairs:
        ratio = f"{each.step_ms / base.step_ms:.2f} × {base.plan}" if each.step_ms else each.failed[:80]
        told = "" if each.predicted_ms is None else f", predicted {each.predicted_ms:.1f}"
        rate = f"{1e3 * each.tokens_per_rank / each.step_ms:,.0f} tokens/s a GPU" if each.step_ms else ""
        print(
            f"{each.model} {each.system:6} {each.plan:14} {each.step_ms:7.1f} ms{told}, {rate}, "
            f"{each.peak_bytes / 1e9:5.1f} GB, {ratio}"
        )
    return 0 if all_agree(pairs) else 1


def add(path: Path, result: Result) -> None:
    """Adds a result in place of an older one of the same case."""
    collected_add(path, result, lambda each: (each.model, each.plan, each.system, each.ranks))


if __name__ == "__main__":
    sys.exit(main())
