"""A whole training step on one GPU, in bf16 with f32 state: dmc beside PyTorch, in one run.

`python -m bench.gpu_step prepare DIRECTORY` compiles each model for CUDA, on any machine, into DIRECTORY. Parameters
are zero in the files, which so pack well. `python -m bench.gpu_step run DIRECTORY` measures on the GPU machine, which
needs torch, transformers, and what `dmc[cuda]` installs, and writes `bench/results/gpu_step.json`: for each model and
system the median step (of five rounds of ten), utilisation of 989.4 TFLOP/s, peak memory, the host's time, and how long
the first step takes to be ready. Without dropout the losses of the first steps are compared with eager's, from the same
parameters; with dropout they differ by chance.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu_clock import clocked
from bench.gpu_models import MODELS
from bench.gpu_peers import CLIP, DECAY, RATE, SYSTEMS, peer
from bench.record import write_record

RESULTS = Path(__file__).parent / "results" / "gpu_step.json"
PEAK = 989.4e12
BATCHES, COMPARED = 4, 8
# Of a loss in bf16: eight steps of rounding each.
TOLERANCE = 2e-3


@dataclass(frozen=True)
class Result:
    """One system on one model. losses: of the first steps. agrees: with eager's; None where dropout decides.

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
    """Prepares or runs; the exit code of `run` is 1 where losses differ from eager's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", nargs="+", choices=tuple(MODELS), default=tuple(MODELS))
    parser.add_argument("--systems", nargs="+", choices=("dmc", *SYSTEMS), default=("dmc", *SYSTEMS))
    parser.add_argument("--dropout", nargs="+", type=float, help="by default as each model is trained, and none")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    cases = [(m, p) for m in options.models for p in options.dropout or sorted({MODELS[m].dropout, 0.0})]
    if options.mode == "prepare":
        for model, dropout in cases:
            prepare(model, dropout, options.directory)
        return 0
    results = [result for case in cases for result in run(*case, options.systems, options.directory)]
    write_record(
        options.out, {"device": torch.cuda.get_device_name(), "results": [asdict(result) for result in results]}
    )
    return 0 if all(result.agrees is not False for result in results) else 1


def prepare(model: str, dropout: float, directory: Path) -> None:
    """Compiles a model, its parameters zero, and prints how long that took and how large the file is."""
    import dmc
    from dmc.api import compile_artifact

    net = MODELS[model].build(dropout)
    for parameter in net.parameters():
        parameter.data.zero_()
    begin = time.perf_counter()
    path = directory / _file(model, dropout)
    compile_artifact(
        net,
        loss=MODELS[model].loss,
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, clip_grad_norm=CLIP),
        example=MODELS[model].batch(0),
        precision="bf16-mixed",
        target="cuda",
        verify=False,
    ).write(path)
    print(f"{path.name}: {time.perf_counter() - begin:.0f} s, {path.stat().st_size / 1e6:.1f} MB", flush=True)


def run(model: str, dropout: float, systems: list[str], directory: Path) -> list[Result]:
    """Measures the systems one after another; without dropout eager's losses come first."""
    batches = [dict(MODELS[model].batch(seed)) for seed in range(BATCHES)]
    results: list[Result] = []
    for system in systems:
        try:
            result = (
                _dmc(model, dropout, batches, directory) if system == "dmc" else _peer(system, model, dropout, batches)
            )
        except KeyError:
            continue  # Only some models have a form by hand.
        results.append(result)
        print(json.dumps(asdict(result)), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
    if dropout:
        return results
    reference = next((result.losses for result in results if result.system == "eager"), None)
    return [_compared(result, reference) for result in results]


def _compared(result: Result, reference: tuple[float, ...] | None) -> Result:
    # The one by hand begins elsewhere.
    if reference is None or result.system == "hand":
        return result
    errors = [abs(a - b) / abs(b) for a, b in zip(result.losses, reference, strict=True)]
    return replace(result, agrees=max(errors) <= TOLERANCE)


def _dmc(model: str, dropout: float, batches: list[dict[str, torch.Tensor]], directory: Path) -> Result:
    from dmc.runtime.step import load

    free, _ = torch.cuda.mem_get_info()
    begin = time.perf_counter()
    step = load(directory / _file(model, dropout), device="cuda")
    names = [spec.name for spec in step.signature.batch]
    arrays = [{name: batch[name].numpy() for name in names} for batch in batches]
    float(step.call_flat(arrays[0]))
    ready = time.perf_counter() - begin
    state = step.state_dict()
    state["model"].update(start(model))
    step.load_state_dict({**state, "optimizer": _zero(state["optimizer"])})
    losses = tuple(float(step.call_flat(arrays[index % BATCHES])) for index in range(COMPARED))
    result = _measured(model, "dmc", dropout, losses, ready, lambda index: step.call_flat(arrays[index % BATCHES]))
    left, _ = torch.cuda.mem_get_info()
    step.close()
    return replace(result, peak_bytes=free - left)


def _zero(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _zero(each) for name, each in value.items()}
    return np.zeros_like(value) if isinstance(value, np.ndarray) else value * 0


def _peer(system: str, model: str, dropout: float, batches: list[dict[str, torch.Tensor]]) -> Result:
    torch.compiler.reset()
    begin = time.perf_counter()
    step, net = peer(system, model, dropout)
    if system != "hand":
        _load(net, start(model))
    on_gpu = [{name: value.cuda() for name, value in batch.items()} for batch in batches]
    losses = [float(step(on_gpu[0]))]
    ready = time.perf_counter() - begin
    losses += [float(step(on_gpu[index % BATCHES])) for index in range(1, COMPARED)]
    torch.cuda.reset_peak_memory_stats()
    result = _measured(model, system, dropout, tuple(losses), ready, lambda index: step(on_gpu[index % BATCHES]))
    return replace(result, peak_bytes=torch.cuda.max_memory_allocated())


def _measured(
    model: str, system: str, dropout: float, losses: tuple[float, ...], ready: float, step: Callable[[int], Any]
) -> Result:
    step_ms, host_us = clocked(step)
    mfu = MODELS[model].flops / (step_ms / 1e3) / PEAK
    return Result(model, system, dropout, step_ms, mfu, 0, host_us, ready, losses)


def start(model: str) -> dict[str, np.ndarray]:
    """Parameters as at the start of training, the same on every machine and for every system."""
    random = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}
    net = MODELS[model].build(0.0)
    names = {id(tensor): name for name, tensor in reversed(list(net.named_parameters(remove_duplicate=False)))}
    for name, tensor in net.named_parameters(remove_duplicate=False):
        if names[id(tensor)] in found:
            found[name] = found[names[id(tensor)]]
            continue
        is_scale = tensor.dim() == 1 and name.endswith("weight")
        found[name] = 0.02 * random.standard_normal(tuple(tensor.shape), np.float32) + np.float32(is_scale)
    return found


def _load(net: torch.nn.Module, values: Mapping[str, np.ndarray]) -> None:
    with torch.no_grad():
        for name, parameter in net.named_parameters(remove_duplicate=False):
            parameter.copy_(torch.from_numpy(values[name]))


def _file(model: str, dropout: float) -> str:
    return f"{model}{'_dropout' if dropout else ''}.dmc"


if __name__ == "__main__":
    sys.exit(main())
