"""A whole training step on one GPU, in bf16 with f32 state: dmc beside PyTorch, and GPT-2 beside JAX, in one run.

`python -m bench.gpu_step prepare DIRECTORY` compiles each model for CUDA, and the candidates for its kernels, on any
machine, into DIRECTORY; their parameters are zero. `python -m bench.gpu_step run DIRECTORY` measures on the GPU
machine, which needs torch, transformers, and the extra `cuda`, and writes `bench/results/gpu_step.json`: for
each model that was prepared, and each system, the median step (of five rounds of ten), utilisation of 989.4 TFLOP/s,
peak memory, the host's time, and how long it takes until the first step is done, for dmc from its file. Each model has
a GPU of the machine for itself, and all its systems run there, one after another. Batches come from the host, for
PyTorch from pinned memory.

Without dropout the losses of the first steps are compared with eager's, from the same parameters. With dropout, where
they differ by chance, their mean is.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dmc.runtime
from bench.gpu_clock import clocked
from bench.gpu_models import MODELS
from bench.gpu_peers import CLIP, DECAY, FEW_MODELS, RATE, SYSTEMS, peer
from bench.packed import PACKED, read_packed, write_packed
from bench.record import write_record
from bench.seeded import seeded
from bench.side_by_side import run_each
from dmc.program.tuning import CANDIDATES

RESULTS = Path(__file__).parent / "results" / "gpu_step.json"
PEAK = 989.4e12
BATCHES, COMPARED = 4, 8
# Of a loss in bf16: eight steps of rounding each. With dropout, of the mean of the losses.
TOLERANCE, BY_CHANCE = 2e-3, 1e-2
Batches = Sequence[Mapping[str, torch.Tensor]]


@dataclass(frozen=True)
class Result:
    """One system on one model. losses: of the first steps. agrees: with eager's; None where there are none.

    host_us: time for which a call keeps the host, with the device done.
    """

    model: str
    system: str
    dropout: float
    step_ms: float
    mfu: float
    peak_bytes: int
    host_us: float
    ready_s: float
    losses: tuple[float, ...]
    agrees: bool | None = None


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 where losses differ from eager's, or a system failed."""
    options = _options()
    options.directory.mkdir(parents=True, exist_ok=True)
    cases = [(m, p) for m in options.models for p in options.dropout or sorted({MODELS[m].dropout, 0.0})]
    if options.mode == "prepare":
        for case in cases:
            prepare(*case, options.directory, options.machine, options.tuning)
        return 0
    if options.mode == "case":
        for results in run(*cases[0], options.systems, options.directory):
            options.out.write_text(json.dumps([asdict(result) for result in results]))
        return 0
    cases = [case for case in cases if (options.directory / case_name(*case)).with_suffix(PACKED).exists()]
    results = [result for part in _side_by_side(cases, options) for result in part]
    write_record(options.out, {"device": torch.cuda.get_device_name(), "results": results})
    is_whole = len(results) >= len(cases) * len(set(options.systems) - FEW_MODELS)
    return 0 if is_whole and all(result["agrees"] is not False for result in results) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run", "case"), help="case: one of `run`, as its processes do it")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=tuple(MODELS))
    parser.add_argument("--systems", nargs="+", choices=("dmc", *SYSTEMS), default=("dmc", *SYSTEMS))
    parser.add_argument("--dropout", nargs="+", type=float, help="by default as each model is trained, and none")
    parser.add_argument(
        "--limit", type=float, metavar="S", help="of `run`: for a model; systems not done by then are left out"
    )
    parser.add_argument("--machine", default="h200", help="of `prepare`: for which machine steps are planned")
    parser.add_argument("--tuning", type=Path, help="of `prepare`: a table of dmc tune")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def _side_by_side(cases: Sequence[tuple[str, float]], options: argparse.Namespace) -> list[list[dict[str, Any]]]:
    """The results of each case, measured in a process of its own; of one that failed, those before."""
    parts = [options.out.with_suffix(f".{case_name(*case)}.json") for case in cases]
    for part in parts:
        part.unlink(missing_ok=True)
    commands = [
        [
            *(sys.executable, "-m", "bench.gpu_step", "case", str(options.directory), "--out", str(part)),
            *("--models", model, "--dropout", str(dropout), "--systems", *options.systems),
        ]
        for (model, dropout), part in zip(cases, parts, strict=True)
    ]
    run_each(commands, torch.cuda.device_count(), options.limit)
    return [json.loads(part.read_text()) if part.exists() else [] for part in parts]


def prepare(model: str, dropout: float, directory: Path, machine: str, tuning: Path | None) -> None:
    """Compiles a model and the candidates for its kernels, and prints how long that took and how large they are."""
    from bench.gpu_compiled import compiled
    from dmc.cli.tune import write_candidates

    begin = time.perf_counter()
    artifact = compiled(MODELS[model], dropout, machine, tuning)
    left = [name for name, kernel in artifact.job.kernels.items() if kernel.implementation == "iree"]
    if left:
        raise SystemExit(f"{model}: left to IREE: {', '.join(left)}")
    path = directory / case_name(model, dropout)
    write_packed(artifact, path.with_suffix(PACKED))
    step_s = time.perf_counter() - begin
    write_candidates(artifact, path.with_suffix(CANDIDATES))
    candidates_s = time.perf_counter() - begin - step_s
    sizes = (f"{each.name} {each.stat().st_size / 1e6:.1f} MB" for each in sorted(directory.glob(f"{path.name}.*")))
    print(f"{path.name}: {step_s:.0f} s, {candidates_s:.0f} s; {', '.join(sizes)}", flush=True)


def run(model: str, dropout: float, systems: Sequence[str], directory: Path) -> Iterator[list[Result]]:
    """Measures one system after another, with all results so far after each. One that fails prints its error."""
    batches = [dict(MODELS[model].batch(seed)) for seed in range(BATCHES)]
    results: list[Result] = []
    for system in systems:
        try:
            result = _of(system, model, dropout, batches, directory)
        except KeyError:
            continue  # Only some models have forms by hand.
        except Exception:
            # Whatever it is, the other systems are measured.
            traceback.print_exc()
            continue
        results.append(result)
        print(json.dumps(asdict(result)), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        reference = next((result.losses for result in results if result.system == "eager"), None)
        yield [_compared(result, reference) for result in results]


def _compared(result: Result, reference: tuple[float, ...] | None) -> Result:
    # The one by hand begins elsewhere.
    if reference is None or result.system == "hand":
        return result
    if result.dropout:
        wanted = sum(reference) / len(reference)
        return replace(result, agrees=abs(sum(result.losses) / len(result.losses) - wanted) <= BY_CHANCE * wanted)
    errors = [abs(a - b) / abs(b) for a, b in zip(result.losses, reference, strict=True)]
    return replace(result, agrees=max(errors) <= TOLERANCE)


def _of(system: str, model: str, dropout: float, batches: Batches, directory: Path) -> Result:
    """The measurement of a system. Raises KeyError if it does not have the model."""
    if system == "dmc":
        return _dmc(model, dropout, batches, directory)
    if system == "xla":
        return _xla(model, dropout, batches)
    return _peer(system, model, dropout, batches)


def _dmc(model: str, dropout: float, batches: Batches, directory: Path) -> Result:
    free, _ = torch.cuda.mem_get_info()
    path = (directory / case_name(model, dropout)).with_suffix(PACKED)
    own = [spec.name for spec in read_packed(path).signature.state if spec.role == "parameter"]
    # A tied parameter is among those at the start by each of its names.
    packed = read_packed(path, {name: start(model)[name] for name in own})
    names = [spec.name for spec in packed.signature.batch]
    arrays = [{name: batch[name].numpy() for name in names} for batch in batches]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "step.dmc"
        packed.write(file)
        begin = time.perf_counter()
        step = dmc.runtime.load(file, device="cuda")
        float(step.call_flat(arrays[0]))
        ready = time.perf_counter() - begin
    state = step.state_dict()
    state["model"].update(start(model))
    step.load_state_dict({**state, "optimizer": _zero(state["optimizer"]), "step": 0})
    losses = tuple(float(step.call_flat(arrays[index % BATCHES])) for index in range(COMPARED))
    result = _measured(model, "dmc", dropout, losses, ready, lambda index: step.call_flat(arrays[index % BATCHES]))
    left, _ = torch.cuda.mem_get_info()
    step.close()
    return replace(result, peak_bytes=free - left)


def _zero(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _zero(each) for name, each in value.items()}
    return np.zeros_like(value) if isinstance(value, np.ndarray) else value * 0


def _peer(system: str, model: str, dropout: float, batches: Batches) -> Result:
    torch.compiler.reset()
    begin = time.perf_counter()
    step, net = peer(system, model, dropout)
    if system != "hand":
        load(net, start(model))
    pinned = [{name: value.pin_memory() for name, value in batch.items()} for batch in batches]

    def run(index: int) -> torch.Tensor:
        batch = pinned[index % BATCHES]
        return step({name: value.cuda(non_blocking=True) for name, value in batch.items()})

    losses = [float(run(0))]
    ready = time.perf_counter() - begin
    losses += [float(run(index)) for index in range(1, COMPARED)]
    torch.cuda.reset_peak_memory_stats()
    result = _measured(model, system, dropout, tuple(losses), ready, run)
    return replace(result, peak_bytes=torch.cuda.max_memory_allocated())


def _xla(model: str, dropout: float, batches: Batches) -> Result:
    from bench.gpu_xla import SIZES, XlaStep

    begin = time.perf_counter()
    step = XlaStep(SIZES[model], start(model), dropout, (RATE, DECAY, CLIP))
    arrays = [{name: value.numpy() for name, value in batch.items()} for batch in batches]

    def run(index: int) -> Any:
        return step(arrays[index % BATCHES])

    losses = [float(run(0))]
    ready = time.perf_counter() - begin
    losses += [float(run(index)) for index in range(1, COMPARED)]
    result = _measured(model, "xla", dropout, tuple(losses), ready, run)
    return replace(result, peak_bytes=step.peak_bytes())


def _measured(
    model: str, system: str, dropout: float, losses: tuple[float, ...], ready: float, step: Callable[[int], Any]
) -> Result:
    step_ms, host_us = clocked(step)
    mfu = MODELS[model].flops / (step_ms / 1e3) / PEAK
    return Result(model, system, dropout, step_ms, mfu, 0, host_us, ready, losses)


@functools.lru_cache(1)
def start(model: str) -> Mapping[str, np.ndarray]:
    """Parameters as at the start of training."""
    return seeded(MODELS[model].build)


def load(net: torch.nn.Module, values: Mapping[str, np.ndarray]) -> None:
    """Copies values into the parameters of these names."""
    with torch.no_grad():
        for name, parameter in net.named_parameters(remove_duplicate=False):
            parameter.copy_(torch.from_numpy(values[name]))


def case_name(model: str, dropout: float) -> str:
    """The stem of a case's files."""
    return f"{model}{'_dropout' if dropout else ''}"


if __name__ == "__main__":
    sys.exit(main())
