"""One plan, two executors: what the CPU executed, replayed on a GPU as one CUDA graph a step.

`python -m bench.gpu_replay prepare DIRECTORY` plans each model once for CPU and GPU (`target="cpu+cuda"`): the demo
GPT, BERT-small and the LSTM at the size of the benchmarks, and every model of the tests, small, with dropout, some of
them in bf16-mixed or with gradient accumulation; and one that draws random numbers of every kind. Two (`…_apart`) are
planned for each machine alone: what only plans for GPUs do, such as masks as bits, must draw the same. It trains 20
steps on the CPU and leaves in DIRECTORY what the GPU machine needs: `<model>.dmc` and `<model>.npz` (batches, losses
and samples of the trained parameters of the CPU). It needs no GPU. Parameters are zero in the files, which so pack
well; both machines draw the same ones.

`python -m bench.gpu_replay run DIRECTORY` replays the same plan on the GPU with `dmc.runtime` alone: 20 steps, and once
more from the start, which must give the same bits, and so must IREE's runtime (`…_runtime`); compares with the CPU;
measures a step beside PyTorch eager's, the time the host spends on it, and the device memory that steps allocate. It
writes `bench/results/gpu_replay.json`, and needs the extra `cuda`, torch and transformers.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from bench import drawing
from bench.gpu_steps import (
    BATCHES,
    CLIP,
    EPSILON,
    RATE,
    STEPS,
    Change,
    bits_of,
    changes,
    drawn_state,
    eager_ms,
    loss_error,
    median_ms,
    stored_batches,
    train,
    train_on_the_cpu,
)
from bench.record import write_record
from tests.models import NAMES, bert_small, build, demo_gpt, lstm
from tests.models.case import Case


@dataclass(frozen=True)
class Replay:
    """A model and how it is trained. timed: whether a step is measured beside PyTorch eager's. target, executor: as
    of `dmc.compile`. steps: that are compared.
    """

    build: Callable[[], Case]
    precision: str = "fp32"
    accumulate: int = 1
    timed: bool = False
    target: str = "cpu+cuda"
    executor: Literal["static", "iree"] = "static"
    steps: int = STEPS


def _small(name: str, precision: str = "fp32", accumulate: int = 1) -> Replay:
    # In bf16 a rounding that flips is worth as much as a dropped element: there nothing is dropped.
    dropout = 0.1 if precision == "fp32" else 0.0
    return Replay(functools.partial(build, name, dropout), precision, accumulate)


# Planned for a GPU alone, and for the CPU alone; IREE's kernels alone, replayed; and the same plan in IREE's runtime.
APART, IREE, RUNTIME = "_apart", "_iree", "_runtime"
CASES: Mapping[str, Replay] = {
    "demo_gpt": Replay(lambda: demo_gpt.build_bench(0.0), timed=True),
    "bert_29m": Replay(lambda: bert_small.build(0.0), timed=True),
    "lstm": Replay(lambda: lstm.build_bench(0.0), timed=True),
    **{f"{name}_small": _small(name) for name in NAMES},
    # BatchNorm of so small a batch is chaotic: the losses of eager in f32 are 5e-7 off those in f64 in the second step,
    # 3e-4 in the fifth, 6e-3 in the nineteenth.
    "resnet_small": replace(_small("resnet"), steps=3),
    "drawing": Replay(drawing.build),
    f"demo_gpt{IREE}": replace(_small("demo_gpt"), target="cpu+cuda:iree"),
    f"demo_gpt{IREE}{RUNTIME}": replace(_small("demo_gpt"), target="cpu+cuda:iree", executor="iree"),
    f"demo_gpt{APART}": Replay(lambda: demo_gpt.build_bench(0.1), target="cuda"),
    f"bert_29m{APART}": Replay(lambda: bert_small.build(0.1), target="cuda"),
    **{f"{name}_bf16_mixed": _small(name, "bf16-mixed") for name in ("gpt2", "llama", "bert", "lstm", "moe")},
    **{f"{name}_accumulate": _small(name, accumulate=2) for name in ("demo_gpt", "bert", "lstm")},
}
RESULTS = Path(__file__).parent / "results" / "gpu_replay.json"
ISSUED = 20
# Of a loss, and of a parameter's change (`bench.gpu_steps.Change`).
LOSS_TOLERANCE = {"fp32": 1e-5, "bf16-mixed": 2e-3}
CHANGE_TOLERANCE = {"fp32": 5e-2, "bf16-mixed": 2e-1}
# The largest relative error of rounding.
ROUNDOFF = {"fp32": 2.0**-24, "bf16-mixed": 2.0**-8}


@dataclass(frozen=True)
class Result:
    """One model. Errors are relative to the CPU's: of a loss, and of each parameter's change (norms).

    rounding: the parameters that rounding alone changes by more than the tolerance, with error and noise; the worst
    change is that of another. same_bits: whether the second run from the start gave the same losses and parameters, bit
    for bit. host_us: time for which a call keeps the host, with the device ahead of it. allocated: bytes of device
    memory that steps added. digest: of the plan, the same on both machines. bits: SHA-256 of losses and parameters.
    """

    model: str
    steps: int
    agrees: bool
    same_bits: bool
    first_loss: float
    last_loss: float
    worst_loss_error: float
    worst_change_error: float
    worst_change: str
    rounding: Mapping[str, Change]
    commands: int
    kernels: int
    arena_bytes: int
    digest: str
    bits: str
    dmc_ms: float
    eager_ms: float | None
    host_us: float
    allocated: int


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 where a model does not agree or its bits differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", nargs="+", choices=tuple(CASES), default=tuple(CASES))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        for model in options.models:
            prepare(model, options.directory)
        return 0
    results = [run(model, options.directory) for model in options.models]
    record = {"device": torch.cuda.get_device_name(), "results": [asdict(result) for result in results]}
    write_record(options.out, record)
    bits = {result.model: result.bits for result in results}
    alike = all(bits[name] == bits.get(name.removesuffix(RUNTIME), bits[name]) for name in bits)
    return 0 if alike and all(result.agrees and result.same_bits for result in results) else 1


def prepare(model: str, directory: Path) -> None:
    """Plans for both machines and trains on the CPU; prints sizes and the losses at both ends."""
    import dmc

    replay, path = CASES[model], directory / f"{model}.dmc"
    _write(replay, path)
    with tempfile.TemporaryDirectory() as own:
        if "cpu" not in replay.target:
            path = Path(own) / path.name
            _write(replace(replay, target="cpu"), path)
        step = dmc.load(path)
        case = replay.build()
        train_on_the_cpu(model, step, drawn_state(step), case, directory, ROUNDOFF[replay.precision], replay.steps)


def _write(replay: Replay, path: Path) -> None:
    """Compiles the model, with parameters of zero."""
    import dmc
    from dmc.api import compile_artifact

    case = replay.build()
    for parameter in case.model.parameters():
        parameter.data.zero_()
    optimizer = dmc.optim.AdamW(lr=RATE, weight_decay=0.1, eps=EPSILON, clip_grad_norm=CLIP)
    compile_artifact(
        case.model,
        loss=case.loss,
        optimizer=optimizer,
        example=case.example(0),
        precision=replay.precision,
        accumulate=replay.accumulate,
        target=replay.target,
        executor=replay.executor,
    ).write(path)


def run(model: str, directory: Path) -> Result:
    """Replays on the GPU, twice, and compares with the stored numbers of the CPU; prints the outcome."""
    from dmc.runtime import load

    stored, precision = dict(np.load(directory / f"{model}.npz")), CASES[model].precision
    step = load(directory / f"{model}.dmc", device="cuda")
    start = drawn_state(step)
    batches, steps = stored_batches(step, stored), CASES[model].steps
    losses, trained = train(step, start, batches, steps)
    before = _used_bytes()
    again, retrained = train(step, start, batches, steps)
    allocated = _used_bytes() - before
    error, found = loss_error(losses, stored), changes(start["model"], trained, stored)
    tolerance = CHANGE_TOLERANCE[precision]
    rounding = {name: each for name, each in found.items() if each.noise > tolerance}
    worst = max(found.keys() - rounding.keys(), key=lambda name: (found[name].error, name))
    job = step.snapshot().job
    result = Result(
        model=model,
        steps=steps,
        agrees=error <= LOSS_TOLERANCE[precision] and all(each.agrees(tolerance) for each in found.values()),
        same_bits=losses == again and all(trained[n].tobytes() == retrained[n].tobytes() for n in trained),
        first_loss=losses[0],
        last_loss=losses[-1],
        worst_loss_error=error,
        worst_change_error=found[worst].error,
        worst_change=worst,
        rounding=rounding,
        commands=len(job.programs[0].commands),
        kernels=len(job.kernels),
        arena_bytes=job.programs[0].arenas["device"],
        digest=job.digest(),
        bits=bits_of(losses, trained),
        dmc_ms=median_ms(lambda index: float(step.call_flat(batches[index % BATCHES]))),
        eager_ms=eager_ms(CASES[model].build()) if CASES[model].timed else None,
        host_us=_host_us(step, batches),
        allocated=allocated,
    )
    print(json.dumps(asdict(result)), flush=True)
    step.close()
    return result


def _host_us(step: Any, batches: Sequence[Mapping[str, np.ndarray]]) -> float:
    """The median time of a call whose predecessors are done, so that it waits for nothing."""
    seconds: list[float] = []
    for index in range(ISSUED):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        loss = step.call_flat(batches[index % BATCHES])
        seconds.append(time.perf_counter() - begin)
        float(loss)
    return 1e6 * statistics.median(seconds)


def _used_bytes() -> int:
    free, total = torch.cuda.mem_get_info()
    return total - free


if __name__ == "__main__":
    sys.exit(main())
