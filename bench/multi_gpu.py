"""GPT-2 124M on several GPUs, in bf16 with f32 state: dmc beside DDP and FSDP2 under torch.compile, in one run.

`python -m bench.multi_gpu prepare DIRECTORY` compiles plans and batches, on any machine, and predicts their steps.
`torchrun --nproc-per-node N -m bench.multi_gpu run DIRECTORY --out FILE` measures those with N ranks (1: a step without
a mesh), and adds to FILE: for each model, plan, system, number of ranks and batch a GPU the median step (of five rounds
of ten), the host's time, the peak memory of a rank, and for dmc what was predicted and `exposed_ms`: the step less the
same step without its movements between ranks, replayed as a graph of its own; `movements_ms` is a step of these
movements alone. `… collect DIRECTORY` compares the losses in the files of a directory and writes
`bench/results/multi_gpu.json`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu_models import MODELS
from bench.gpu_peers import CLIP, DECAY, RATE
from bench.gpu_step import start
from bench.record import write_record

RESULTS = Path(__file__).parent / "results" / "multi_gpu.json"
MODEL = "gpt2_124m"
PLANS = ("dp", "zero2")
PEERS = {"ddp": "dp", "fsdp2": "zero3"}
BATCHES, COMPARED, STEPS, ROUNDS, ISSUED = 4, 6, 10, 5, 10
# Of a loss in bf16: six steps of rounding each.
TOLERANCE = 5e-3
Step = Callable[[int], Any]


@dataclass(frozen=True)
class Result:
    """One system. losses: of the first steps. agrees: with those of dmc, or the first found. step_ms: a median."""

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
    predicted_ms: float | None = None
    device: str = ""
    agrees: bool | None = None


def main() -> int:
    """Does what the command line asks for; the exit code of `collect` is 1 where losses differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run", "collect"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ranks", nargs="+", type=int, default=(1, 2, 4))
    parser.add_argument("--batches", nargs="+", type=int, default=(16, 8, 4, 2))
    parser.add_argument("--plans", nargs="+", choices=PLANS, default=PLANS)
    parser.add_argument("--systems", nargs="+", choices=("dmc", *PEERS), default=("dmc", *PEERS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        for batch in options.batches:
            for ranks in options.ranks:
                for plan in options.plans if ranks > 1 else ("alone",):
                    prepare(plan, ranks, batch, options.directory)
        return 0
    return collect(options.directory, options.out) if options.mode == "collect" else run(options)


def _path(directory: Path, plan: str, ranks: int, batch: int) -> Path:
    return directory / f"{MODEL}@{plan}{ranks}@{batch}.dmc"


def prepare(plan: str, ranks: int, batch: int, directory: Path) -> None:
    """Compiles one case, its parameters zero and without the texts of its forms, so that the file packs well."""
    import dmc
    from dmc.api import compile_artifact
    from dmc.machine import machine, machine_for
    from dmc.simulator import simulate

    path, begin = _path(directory, plan, ranks, batch), time.perf_counter()
    if path.exists():
        return
    net = MODELS[MODEL].build(0.0)
    for parameter in net.parameters():
        parameter.data.zero_()
    mesh, ways = dmc.Mesh(dp=ranks), {"dp": dmc.plans.data_parallel, "zero2": dmc.plans.zero2}
    artifact = compile_artifact(
        net,
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, clip_grad_norm=CLIP),
        example=batch_of(0, ranks * batch),
        precision="bf16-mixed",
        mesh=mesh if ranks > 1 else None,
        plan=dmc.plan(mesh).use(ways[plan]("dp")) if ranks > 1 else None,
        target="cuda",
        verify=False,
    )
    replace(artifact, ir={}).write(path)
    predicted = simulate(artifact.job, machine(machine_for("h200", ranks))).step_ns
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
    for batch in options.batches:
        for system in options.systems:
            given = own_batches(rank, ranks, batch)
            for result in _of_system(system, given, rank, ranks, batch, options):
                gc.collect()
                torch.cuda.empty_cache()
                if rank == 0:
                    print(json.dumps(asdict(result)), flush=True)
                    _write(options.out, [result])
    return 0


def collect(directory: Path, out: Path) -> int:
    """Joins what was measured, and says of each result whether its losses are those of the others."""
    files = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    found = [Result(**each) for file in files for each in file.get("results", ()) if "batch_per_rank" in each]
    found.sort(key=lambda each: (each.ranks, -each.batch_per_rank, each.system != "dmc", each.system, each.plan))
    first: dict[tuple[int, int], Result] = {}
    for each in found:
        first.setdefault((each.ranks, each.batch_per_rank), each)
    _write(out, [replace(each, agrees=_agrees(each, first[each.ranks, each.batch_per_rank])) for each in found])
    return 0 if all(_agrees(each, first[each.ranks, each.batch_per_rank]) for each in found) else 1


def _agrees(result: Result, other: Result) -> bool:
    return all(abs(a - b) <= TOLERANCE * abs(b) for a, b in zip(result.losses, other.losses, strict=True))


def _of_system(
    system: str, given: list[dict[str, torch.Tensor]], rank: int, ranks: int, batch: int, options: argparse.Namespace
) -> Sequence[Result]:
    if system in PEERS:
        return [_peer(system, given, rank, ranks, batch)]
    paths = [_path(options.directory, plan, ranks, batch) for plan in (options.plans if ranks > 1 else ("alone",))]
    return [_dmc(path, given, ranks, batch) for path in paths if path.exists()]


def _dmc(path: Path, given: list[dict[str, torch.Tensor]], ranks: int, batch: int) -> Result:
    from dmc.program import Await, Collective, Launch, Move, Record
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
    plan = path.name.split("@")[1].rstrip("1234567890")
    result = _measured(plan, "dmc", ranks, batch, losses, lambda index: step.call_flat(arrays[index % BATCHES]))
    left, _ = torch.cuda.mem_get_info()
    step.close()
    predicted = json.loads(path.with_suffix(".json").read_text())["predicted_ms"]
    result = replace(result, peak_bytes=free - left, predicted_ms=predicted)
    if ranks == 1:
        return replace(result, exposed_ms=0.0)

    def alone(*kinds: type) -> float:
        other = Step(replace(artifact, job=artifact.job.only(*kinds)), "cuda", world)
        measured = _measured(plan, "", ranks, batch, (), lambda index: other.call_flat(arrays[index % BATCHES]))
        other.close()
        return measured.step_ms

    computed, moved = alone(Launch, Move, Record, Await), alone(Collective, Record, Await)
    return replace(result, exposed_ms=result.step_ms - computed, movements_ms=moved)


def _peer(system: str, given: list[dict[str, torch.Tensor]], rank: int, ranks: int, batch: int) -> Result:
    torch.compiler.reset()
    step, net = _peer_step(system, ranks)
    on_gpu = [{name: value.cuda() for name, value in each.items()} for each in given]
    losses: list[float] = []
    for index in range(COMPARED):
        loss = step(on_gpu[index % BATCHES])
        losses.append(float(_mean(loss, ranks)))
    torch.cuda.reset_peak_memory_stats()
    plan = PEERS[system] if ranks > 1 else "alone"
    result = _measured(plan, system, ranks, batch, tuple(losses), lambda index: step(on_gpu[index % BATCHES]))
    del net
    return replace(result, peak_bytes=torch.cuda.max_memory_allocated())


def _mean(loss: torch.Tensor, ranks: int) -> torch.Tensor:
    if ranks > 1:
        torch.distributed.all_reduce(loss, torch.distributed.ReduceOp.AVG)
    return loss


def _peer_step(system: str, ranks: int) -> tuple[Callable[[dict[str, torch.Tensor]], torch.Tensor], torch.nn.Module]:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    if ranks > 1 and not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    net = MODELS[MODEL].build(0.0).cuda()
    _load(net, start(MODEL))
    run: Any = net
    if ranks > 1 and system == "ddp":
        run = torch.compile(DistributedDataParallel(net, gradient_as_bucket_view=True))
    elif ranks > 1:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        blocks: Any = net.transformer
        for block in blocks.h:
            block.compile()
            fully_shard(block, mp_policy=policy)
        fully_shard(net, mp_policy=policy)
    else:
        run = torch.compile(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY, fused=True)

    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step, net


def _load(net: torch.nn.Module, values: Mapping[str, np.ndarray]) -> None:
    with torch.no_grad():
        for name, parameter in net.named_parameters(remove_duplicate=False):
            parameter.copy_(torch.from_numpy(values[name]))


def _measured(plan: str, system: str, ranks: int, batch: int, losses: tuple[float, ...], step: Step) -> Result:
    last = step(0)
    for index in range(2):
        last = step(index)
    rounds: list[float] = []
    for _ in range(ROUNDS):
        float(last)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for index in range(STEPS):
            last = step(index)
        float(last)
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - begin) / STEPS)
    host: list[float] = []
    for index in range(ISSUED):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        last = step(index)
        host.append(time.perf_counter() - begin)
        float(last)
    step_ms, host_us = 1e3 * statistics.median(rounds), 1e6 * statistics.median(host)
    device = torch.cuda.get_device_name()
    return Result(MODEL, plan, system, ranks, batch, step_ms, host_us, 0, losses, device=device)


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
