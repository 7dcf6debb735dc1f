"""One system that trains one model on a GPU, in a process of its own; see `bench.gpu_step`.

`python -m bench.step_worker MODEL SYSTEM DIRECTORY` prints a line of JSON: `step_ms`, `peak_bytes`, `mfu`, `host_us`,
`ready_s`, and the first and last loss.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.hand_gpt2 import HandGpt2
from bench.step_cases import CASES, batch_of
from tests.models.case import Case

RATE, CLIP, WEIGHT_DECAY = 1e-4, 1.0, 0.1
BATCHES, WARM, WINDOWS, WINDOW = 2, 5, 6, 5
# Of one GPU, dense bf16, by its data sheet.
PEAK = 989.4e12

# Issues step i and gives its loss, which the device may still be at.
Issue = Callable[[int], Any]
# How a system is made ready: its way to issue steps, and how many bytes of device memory it has taken at most by then.
Prepare = Callable[[str, Path], tuple[Issue, Callable[[], int]]]
_HAND = {"gpt2_124m": (12, 12), "gpt2_355m": (24, 16)}


def main() -> None:
    """Measures, and prints what was found."""
    model, system, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    torch.cuda.init()
    begin = time.perf_counter()
    issue, peak_bytes = SYSTEMS[system](model, directory)
    first = float(issue(0))
    ready = time.perf_counter() - begin
    for index in range(WARM):
        float(issue(index))
    seconds = statistics.median(_window(issue) for _ in range(WINDOWS))
    case = CASES[model]
    with torch.device("meta"):
        flops = case.flops(case.build().model)
    found = {
        "step_ms": 1e3 * seconds,
        "mfu": flops / seconds / PEAK,
        "host_us": _host_us(issue),
        "ready_s": ready,
        "first_loss": first,
        "last_loss": float(issue(0)),
        "peak_bytes": peak_bytes(),
    }
    print(json.dumps(found), flush=True)


def _window(issue: Issue) -> float:
    """The time of a step among several that are issued one behind the other."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for index in range(WINDOW - 1):
        issue(index)
    float(issue(WINDOW - 1))
    return (time.perf_counter() - begin) / WINDOW


def _host_us(issue: Issue) -> float:
    """The median time for which a call keeps the host where all calls before it are done."""
    seconds: list[float] = []
    for index in range(10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = issue(index)
        seconds.append(time.perf_counter() - begin)
        float(loss)
    return 1e6 * statistics.median(seconds)


def _dmc(model: str, directory: Path) -> tuple[Issue, Callable[[], int]]:
    import numpy as np

    from bench.gpu_replay import start_state
    from dmc.runtime.step import load

    before = _used_bytes()
    step = load(directory / f"{model}.dmc", device="cuda")
    step.load_state_dict(start_state(step))
    names = [spec.name for spec in step.signature.batch]
    batches = [dict(np.load(directory / f"{model}.{seed}.npz")) for seed in range(BATCHES)]
    ordered = [{name: batch[name] for name in names} for batch in batches]
    return (lambda index: step.call_flat(ordered[index % BATCHES])), lambda: _used_bytes() - before


def _used_bytes() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free


def _torch(mode: str | None, model: str, directory: Path) -> tuple[Issue, Callable[[], int]]:
    """PyTorch under autocast with its fused AdamW; `mode`: of torch.compile, "" for its own, None for eager."""
    case = CASES[model].build()
    objective = torch.compile(_objective, mode=mode or None) if mode is not None else _objective
    return _trainer(case.model, case, objective)


def _hand(model: str, directory: Path) -> tuple[Issue, Callable[[], int]]:
    case = CASES[model].build()
    return _trainer(HandGpt2(*_HAND[model]), case, torch.compile(lambda net, batch: net(**batch)))


def _objective(net: torch.nn.Module, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return net(**batch).loss


def _trainer(net: torch.nn.Module, case: Case, objective: Callable[..., torch.Tensor]) -> tuple[Issue, Any]:
    net = net.cuda().train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=WEIGHT_DECAY, fused=True)
    batches = [{name: value.cuda() for name, value in batch_of(case, seed).items()} for seed in range(BATCHES)]

    def issue(index: int) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            loss = objective(net, batches[index % BATCHES])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return issue, torch.cuda.max_memory_allocated


SYSTEMS: Mapping[str, Prepare] = {
    "dmc": _dmc,
    "eager": partial(_torch, None),
    "compile": partial(_torch, ""),
    "max-autotune": partial(_torch, "max-autotune"),
    "hand": _hand,
}


if __name__ == "__main__":
    main()
