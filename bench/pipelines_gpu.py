"""Pipelines on GPUs at real size, beside torch.distributed.pipelining and dmc's plans without stages.

`python -m bench.pipelines_gpu prepare DIRECTORY` compiles the plans for `--ranks` GPUs, on any machine, without
weights, and predicts their steps. `torchrun --nproc-per-node 2 -m bench.pipelines_gpu run DIRECTORY --out FILE`, where
the GPUs are, writes random parameters to `--weights`, loads them into each system, and adds to FILE for each: the
median step (of five rounds of ten), the share of it in which the busiest and the average rank computes nothing, the
formula's share for equal stages, the peak memory of a rank, and the losses of the first steps. `… collect FILE` says of
each result whether its losses are those of the first, and prints ratios. Systems that fail are kept with the reason.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.collected import add, all_agree, collected
from bench.gpu_clock import clocked
from bench.pipelines_cases import MODELS, SCHEDULES, WHOLE, batch_of, formula_of
from bench.pipelines_peers import PEERS, PipelinedPeer
from bench.seeded import seeded
from dmc.program import Job
from dmc.program.profile import Profile
from dmc.program.program import Work

RESULTS = Path(__file__).parent / "results" / "pipelines.json"
BATCHES, COMPARED = 4, 6
SYSTEMS = (*WHOLE, *SCHEDULES)


@dataclass(frozen=True)
class Result:
    """One system on one global batch.

    idle: the mean over ranks of the share of a step in which a rank computes nothing; most_idle: of the rank that waits
    longest. formula: that for equal stages. peak_bytes: of a rank. agrees: whether its losses are those of the first.
    """

    model: str
    schedule: str
    system: str
    stages: int
    microbatches: int
    ranks: int
    step_ms: float = 0.0
    idle: float | None = None
    most_idle: float | None = None
    formula: float | None = None
    peak_bytes: int = 0
    predicted_ms: float | None = None
    losses: tuple[float, ...] = ()
    agrees: bool | None = None
    failed: str = ""
    device: str = ""


def main() -> int:
    """Does what the command line asks for; the exit code of `collect` is 1 where losses differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run", "collect"))
    parser.add_argument("directory", type=Path, help="of `collect`: a file of results")
    parser.add_argument("--model", choices=tuple(MODELS), default="llama_1b")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=2, help="of `prepare`")
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--peers", nargs="*", choices=tuple(PEERS), default=tuple(PEERS))
    parser.add_argument("--machine", default="h100", help="with one of the GPUs that the plans are for")
    parser.add_argument("--weights", type=Path, default=Path("/tmp/pipelines"), help="of `run`: where they are written")
    parser.add_argument("--profiles", type=Path, help="of `run`: where the time of each command of dmc is written")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.mode == "collect":
        return collect(options.directory)
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "run":
        return run(options)
    from bench.pipelines_files import prepare

    return prepare(options)


def run(options: argparse.Namespace) -> int:
    """Measures one system after another; the first rank writes after each."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    rank = torch.distributed.get_rank()
    weights = options.weights / f"{options.model}.safetensors"
    if rank == 0:
        write_weights(options.model, weights)
    torch.distributed.barrier()
    runs: list[Callable[[], Result]] = []
    for schedule in options.systems:
        path = options.directory / f"{options.model}@{schedule}@{options.microbatches}.dmc"
        if path.exists():
            runs.append(lambda path=path, schedule=schedule: _dmc(path, schedule, weights, options))
    runs += [lambda system=system: _peer(system, weights, options) for system in options.peers]
    for each in runs:
        result = each()
        gc.collect()
        torch.cuda.empty_cache()
        torch.distributed.barrier()
        if rank == 0:
            print(json.dumps(asdict(result)), flush=True)
            add(options.out, result, _case)
    torch.distributed.destroy_process_group()
    return 0


def write_weights(model: str, path: Path) -> None:
    """Parameters as at the start, in one file."""
    from safetensors.numpy import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        save_file(dict(seeded(lambda _: MODELS[model]()[0])), path)


def _empty(schedule: str, system: str, options: argparse.Namespace) -> Result:
    ranks, chunks = torch.distributed.get_world_size(), SCHEDULES.get(schedule, 1)
    formula = None if schedule in WHOLE else formula_of(schedule, ranks, options.microbatches)
    stages = 1 if schedule in WHOLE else ranks * chunks
    name = torch.cuda.get_device_name()
    return Result(options.model, schedule, system, stages, options.microbatches, ranks, formula=formula, device=name)


def _batches(options: argparse.Namespace) -> list[dict[str, torch.Tensor]]:
    net, _, _, length = MODELS[options.model]()
    return [batch_of(seed, options.microbatches, length, net.config.vocab_size) for seed in range(BATCHES)]


def _dmc(path: Path, schedule: str, weights: Path, options: argparse.Namespace) -> Result:
    from dmc.runtime import Artifact, Step
    from dmc.runtime.world.launch import world_from_environment

    free, _ = torch.cuda.mem_get_info()
    artifact = Artifact.read(path)
    step = Step(artifact, "cuda", world_from_environment(os.environ))
    step.load_weights(weights)
    names = [spec.name for spec in step.signature.batch]
    given = [{name: each[name].numpy() for name in names} for each in _batches(options)]
    if schedule == "zero2":
        given = [_own_rows(each) for each in given]

    def call(index: int) -> Any:
        return step.call_flat(given[index % BATCHES])

    losses = tuple(float(call(index)) for index in range(COMPARED))
    step_ms, _ = clocked(call)
    left, _ = torch.cuda.mem_get_info()
    profile = step.profile()
    if options.profiles and torch.distributed.get_rank() == 0:
        options.profiles.mkdir(parents=True, exist_ok=True)
        profile.write(options.profiles / f"{path.stem}.profile.json")
    busy = _busy(profile, artifact.job)
    step.close()
    idles = [1.0 - each / profile.device_ns for each in busy] if profile.device_ns else []
    return replace(
        _empty(schedule, "dmc", options),
        step_ms=step_ms,
        idle=sum(idles) / len(idles),
        most_idle=max(idles),
        peak_bytes=greatest(free - left),
        losses=losses,
        predicted_ms=json.loads(path.with_suffix(".json").read_text())["predicted_ms"],
    )


def _busy(profile: Profile, job: Job) -> list[float]:
    """Nanoseconds in which each rank computes: of the commands of its lanes of computation, none twice."""
    spans: dict[int, list[tuple[float, float]]] = {rank: [] for rank in range(job.size)}
    for timed in profile.commands:
        program = job.programs[timed.rank]
        command = program.commands[timed.command]
        assert isinstance(command, Work), "only work is timed"
        if program.lanes[command.lane].queue == "compute":
            spans[timed.rank].append((timed.start, timed.end))
    return [_covered(sorted(each)) for each in spans.values()]


def _covered(spans: list[tuple[float, float]]) -> float:
    found, reached = 0.0, 0.0
    for begin, end in spans:
        found += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return found


def _own_rows(batch: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A rank's rows of a global batch."""
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    return {name: np.ascontiguousarray(np.split(each, ranks)[rank]) for name, each in batch.items()}


def _peer(system: str, weights: Path, options: argparse.Namespace) -> Result:
    result = _empty(PEERS[system].schedule, system, options)
    torch.compiler.reset()
    torch.cuda.reset_peak_memory_stats()
    try:
        # Stages as dmc's of this schedule.
        told = options.directory / f"{options.model}@{PEERS[system].schedule}@{options.microbatches}.json"
        cut = json.loads(told.read_text())["cut"]
        step = PipelinedPeer(PEERS[system], options.model, weights, options.microbatches, cut)
        given = [{name: value.cuda() for name, value in each.items()} for each in _batches(options)]
        losses = tuple(float(step(given[index % BATCHES])) for index in range(COMPARED))
        step_ms, _ = clocked(lambda index: step(given[index % BATCHES]))
    except RuntimeError as error:
        return replace(result, failed=str(error)[:500])
    return replace(result, step_ms=step_ms, peak_bytes=greatest(torch.cuda.max_memory_allocated()), losses=losses)


def greatest(number: int) -> int:
    """The greatest of all ranks' numbers."""
    told = torch.tensor(number, device="cuda")
    torch.distributed.all_reduce(told, torch.distributed.ReduceOp.MAX)
    return int(told)


def collect(out: Path) -> int:
    """Says of each result whether its losses are those of the first of its case, and prints the table."""
    pairs = collected(out, Result, _group)
    for each, base in pairs:
        ratio = f"{each.step_ms / base.step_ms:.2f} × {base.system} {base.schedule}" if each.step_ms else each.failed
        told = "" if each.predicted_ms is None else f", predicted {each.predicted_ms:.1f}"
        idle = "" if each.idle is None else f", idle {100 * each.idle:.1f} %"
        formula = "" if each.formula is None else f" (formula {100 * each.formula:.1f})"
        print(
            f"{each.model} m={each.microbatches} {each.system:18} {each.schedule:12} {each.step_ms:7.1f} ms{told}"
            f"{idle}{formula}, {each.peak_bytes / 1e9:5.1f} GB, {ratio}"
        )
    return 0 if all_agree(pairs) else 1


def _group(result: Result) -> tuple[str, int, int]:
    return result.model, result.microbatches, result.ranks


def _case(result: Result) -> tuple[str, int, int, str, str]:
    return *_group(result), result.system, result.schedule


if __name__ == "__main__":
    sys.exit(main())
