"""One system training one model in a process of its own, so that its memory is its own: the parent tells it when.

`python -m bench.worker MODEL SYSTEM DIRECTORY TARGET` prepares and prints a JSON line with `ready_s` (seconds). For
each line with a number n on its standard input it makes n steps and answers with a JSON list of their seconds. At the
end of input it prints `training_mb` and `loss`. The systems are eager, compile (torch.compile) and dmc; `dmc-compiler`
compiles into DIRECTORY, for TARGET, what `dmc` then trains with `dmc.runtime` alone, so that the compiler's memory is
counted apart. `dmc-packer` compiles a small file instead, from which `dmc-unpacker`, given that file as TARGET, makes
the same where there is no compiler.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.resident import peak, reset_peak

if TYPE_CHECKING:
    from dmc.runtime.files.artifact import Artifact
    from tests.models.case import Case

CORES = 2
BATCHES = 4
MODULES = {
    "eager": ("torch", "bench.cases", "tests.eager"),
    "compile": ("torch", "bench.cases", "tests.eager", "torch._dynamo", "torch._inductor"),
    "dmc-compiler": ("torch", "bench.cases", "dmc.api"),
    "dmc-packer": ("torch", "bench.cases", "dmc.api"),
    "dmc-unpacker": ("torch", "bench.cases"),
    "dmc": ("numpy", "dmc.runtime.step"),
}

RunStep = Callable[[int], float]


def main() -> None:
    """Serves the parent until its end of input."""
    model, system, directory, target = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    # Before anything starts threads: every system gets the same cores.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    for module in MODULES[system]:
        __import__(module)
    before = reset_peak()
    start = time.perf_counter()
    run_step = PREPARE[system](model, directory, target)
    loss = run_step(0)  # torch.compile compiles on the first call.
    _say({"ready_s": time.perf_counter() - start})
    count = 1
    for line in sys.stdin:
        seconds: list[float] = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            loss = run_step(count % BATCHES)
            seconds.append(time.perf_counter() - begin)
            count += 1
        _say(seconds)
    _say({"training_mb": peak() - before, "loss": loss})


def _say(value: object) -> None:
    print(json.dumps(value), flush=True)


def _torch(model: str, compiled: bool) -> RunStep:
    import torch

    from bench import cases
    from tests.eager import objective

    torch.set_num_threads(CORES)
    case = cases.CASES[model]()
    batches = [case.example(seed) for seed in range(BATCHES)]
    optimizer = cases.torch_optimizer(case.model)
    forward = torch.compile(objective) if compiled else objective

    def run_step(index: int) -> float:
        optimizer.zero_grad()
        loss = forward(case.model, case.loss, batches[index])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(case.model.parameters(), cases.CLIP)
        optimizer.step()
        return loss.item()

    return run_step


def _compiled(case: Case, target: str) -> Artifact:
    import torch

    from bench import cases
    from dmc.api import compile_artifact

    torch.set_num_threads(CORES)
    return compile_artifact(
        case.model, loss=case.loss, optimizer=cases.own_optimizer(), example=case.example(0), target=target
    )


def _dmc_compiler(model: str, directory: Path, target: str) -> RunStep:
    from bench import cases

    case = cases.CASES[model]()
    _write(_compiled(case, target), case, model, directory)
    return lambda index: 0.0


def _dmc_packer(model: str, directory: Path, target: str) -> RunStep:
    from bench import cases
    from bench.packed import PACKED, write_packed

    write_packed(_compiled(cases.CASES[model](), target), directory / f"{model}{PACKED}")
    return lambda index: 0.0


def _dmc_unpacker(model: str, directory: Path, packed: str) -> RunStep:
    from bench import cases
    from bench.packed import read_packed

    case = cases.CASES[model]()
    parameters = {name: value.detach().numpy() for name, value in case.model.named_parameters()}
    _write(read_packed(Path(packed), parameters), case, model, directory)
    return lambda index: 0.0


def _write(artifact: Artifact, case: Case, model: str, directory: Path) -> None:
    """The step, and its batches."""
    import numpy as np

    artifact.write(directory / f"{model}.dmc")
    for seed in range(BATCHES):
        batch = case.example(seed)
        values = list(batch.values()) if isinstance(batch, dict) else list(batch)
        names = [spec.name for spec in artifact.signature.batch]
        arrays = dict(zip(names, map(np.asarray, values), strict=True))
        np.savez(directory / f"{model}.{seed}.npz", allow_pickle=False, **arrays)


def _dmc(model: str, directory: Path, target: str) -> RunStep:
    import numpy as np

    from dmc.runtime import load

    step = load(directory / f"{model}.dmc")
    batches = [dict(np.load(directory / f"{model}.{seed}.npz")) for seed in range(BATCHES)]
    return lambda index: float(step.call_flat(batches[index]))


PREPARE: dict[str, Callable[[str, Path, str], RunStep]] = {
    "eager": lambda model, *_: _torch(model, compiled=False),
    "compile": lambda model, *_: _torch(model, compiled=True),
    "dmc-compiler": _dmc_compiler,
    "dmc-packer": _dmc_packer,
    "dmc-unpacker": _dmc_unpacker,
    "dmc": _dmc,
}


if __name__ == "__main__":
    main()
