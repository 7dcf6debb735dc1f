"""A limited memory on one GPU: dmc with twice a batch that torch.compile does not fit, in 40 GiB for both, in one run.

`python -m bench.gpu_memory prepare DIRECTORY` compiles each model for two batches, one twice the other, with
`memory_cap` 40 GiB, in bf16 with f32 state, with dropout 0.1, on any machine; no kernel is tuned for these
shapes. `python -m bench.gpu_memory run DIRECTORY` measures on a GPU with more memory, and writes
`bench/results/gpu_memory.json`: the median step, samples a second, the planned bytes, and what the device lacks while
the step runs (with code and libraries, without the context); of torch.compile, which may use 40 GiB, what its allocator
reserves. dmc's losses are compared between the step under the cap and one that keeps everything, which also says what
the cap costs, and with those of a step whose optimizer state waits in host memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from bench.gpu_clock import clocked
from bench.gpu_models import MODELS, empty, labelled
from bench.gpu_peers import CLIP, DECAY, RATE, peer
from bench.gpu_step import load, start
from bench.packed import PACKED, read_packed, write_packed
from bench.record import write_record
from tests.models.case import masked_batch

RESULTS = Path(__file__).parent / "results" / "gpu_memory.json"
CAP, DROPOUT, COMPARED = 40 << 30, 0.1, 4
# Of a loss: recomputing gives the same bits, but a head in chunks has its gradient in several sums.
ROUNDING = 1e-5
# At most so many bytes of code and libraries are beside the arena.
_BESIDE = 512 << 20
# Those tried with torch.compile: the larger does not fit, the smaller does. dmc takes the larger, and twice that.
TRIED = {"gpt2_355m": (28, 24), "bert_large": (64, 56)}
# dmc, with optimizer state that waits in host memory.
WAITING = "dmc-waiting-state"
SYSTEMS = ("dmc", WAITING, "compile")


@dataclass(frozen=True)
class Result:
    """One system, at one batch. cap: bytes, 0 for none. planned: bytes of dmc's arena. device_bytes: see above."""

    model: str
    system: str
    batch: int
    cap: int
    step_ms: float
    samples_per_s: float
    device_bytes: int
    planned: int | None = None
    losses: tuple[float, ...] = ()
    error: str = ""


def main() -> int:
    """Prepares or measures; the exit code of `run` is 1 where a step of dmc does not fit, or differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run", "case"), help="case: one of `run`, in a process of its own")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", nargs="+", choices=tuple(TRIED), default=tuple(TRIED))
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--case", nargs=4, metavar=("MODEL", "SYSTEM", "BATCH", "CAP"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        for case in (each for model in options.models for each in _own_cases(model)):
            if case[1] in options.systems:
                prepare(*case, options.directory)
        return 0
    if options.mode == "case":
        model, system, batch, cap = options.case
        print(json.dumps(asdict(_case(model, system, int(batch), int(cap), options.directory))), flush=True)
        return 0
    results: list[dict[str, Any]] = []
    for case in (each for model in options.models for each in _cases(model) if each[1] in options.systems):
        results.append(_apart(case, options.directory))
        write_record(options.out, {"device": torch.cuda.get_device_name(), "cap": CAP, "results": results})
    return 0 if all(_is_right(each, results) for each in results) else 1


def _own_cases(model: str) -> list[tuple[str, str, int, int]]:
    """Model, system, batch and cap of each step of dmc."""
    batch, _ = TRIED[model]
    own = [("dmc", batch, CAP), ("dmc", 2 * batch, CAP), ("dmc", 2 * batch, 0)]
    return [(model, *each) for each in (*own, (WAITING, batch, CAP), (WAITING, batch, 0))]


def _cases(model: str) -> list[tuple[str, str, int, int]]:
    return [*_own_cases(model), *((model, "compile", batch, CAP) for batch in TRIED[model])]


def batch_of(model: str, size: int) -> Mapping[str, torch.Tensor]:
    """A batch of so many sequences."""
    if model == "bert_large":
        return masked_batch(0, size, 512, 30522, 103)
    return labelled(0, size, 1024, 50257)


def _path(directory: Path, model: str, system: str, batch: int, cap: int) -> Path:
    return directory / f"{model}-{system}-{batch}-{'capped' if cap else 'free'}{PACKED}"


def prepare(model: str, system: str, batch: int, cap: int, directory: Path) -> None:
    """Compiles one step."""
    import dmc
    from dmc.api import compile_artifact

    begin, path = time.perf_counter(), _path(directory, model, system, batch, cap)
    artifact = compile_artifact(
        empty(MODELS[model].build(DROPOUT)),
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, clip_grad_norm=CLIP),
        example=batch_of(model, batch),
        precision="bf16-mixed",
        target="cuda",
        machine="h200",
        memory_cap=cap or None,
        plan=dmc.plan().offload_optimizer() if system == WAITING else None,
        verify=False,
    )
    write_packed(artifact, path)
    planned = artifact.job.programs[0].arenas["device"]
    print(f"{path.name}: {planned / 1e9:.2f} GB, {time.perf_counter() - begin:.0f} s", flush=True)


def _apart(case: tuple[str, str, int, int], directory: Path) -> dict[str, Any]:
    """A case in a process of its own, whose memory nothing else has used."""
    words = ["case", str(directory), "--case", *map(str, case)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.gpu_memory", *words], check=False, stdout=subprocess.PIPE, text=True
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        model, system, batch, cap = case
        return asdict(Result(model, system, batch, cap, 0.0, 0.0, 0, error=f"exit code {done.returncode}"))
    print(lines[-1], flush=True)
    return json.loads(lines[-1])


def _case(model: str, system: str, batch: int, cap: int, directory: Path) -> Result:
    try:
        return _torch(model, batch, cap) if system == "compile" else _dmc(model, system, batch, cap, directory)
    except torch.cuda.OutOfMemoryError as error:
        return Result(model, system, batch, cap, 0.0, 0.0, 0, error=f"out of memory: {str(error).splitlines()[0]}")
    except Exception as error:
        # Whatever it is, the other cases are measured; an error makes the run fail.
        traceback.print_exc()
        return Result(model, system, batch, cap, 0.0, 0.0, 0, error=str(error))


def _dmc(model: str, system: str, batch: int, cap: int, directory: Path) -> Result:
    from dmc.runtime.step import Step

    torch.cuda.init()
    free, _ = torch.cuda.mem_get_info()
    artifact = read_packed(_path(directory, model, system, batch, cap))
    step = Step(artifact, "cuda")
    state = step.state_dict()
    state["model"].update(start(model))
    step.load_state_dict({**state, "step": 0})
    given = {name: value.numpy() for name, value in batch_of(model, batch).items()}
    arrays = {spec.name: given[spec.name] for spec in step.signature.batch}
    losses = tuple(float(step.call_flat(arrays)) for _ in range(COMPARED))
    step_ms, _ = clocked(lambda _: step.call_flat(arrays))
    left, _ = torch.cuda.mem_get_info()
    planned = artifact.job.programs[0].arenas["device"]
    rate = 1e3 * batch / step_ms
    return Result(model, system, batch, cap, step_ms, rate, free - left, planned, losses)


def _torch(model: str, batch: int, cap: int) -> Result:
    _, total = torch.cuda.mem_get_info()
    torch.cuda.set_per_process_memory_fraction(cap / total)
    step, net = peer("compile", model, DROPOUT)
    load(net, start(model))
    given = {name: value.cuda() for name, value in batch_of(model, batch).items()}
    losses = tuple(float(step(given)) for _ in range(COMPARED))
    step_ms, _ = clocked(lambda _: step(given))
    peak = torch.cuda.max_memory_reserved()
    return Result(model, "compile", batch, cap, step_ms, 1e3 * batch / step_ms, peak, losses=losses)


def _is_right(result: Mapping[str, Any], results: list[dict[str, Any]]) -> bool:
    """Whether a step of dmc fits its cap, takes what was planned, and has the losses of the one that keeps all."""
    if result["system"] == "compile":
        return True
    if result["error"]:
        return False
    is_as_planned = 0 <= result["device_bytes"] - result["planned"] <= _BESIDE
    others = [each for each in results if each["model"] == result["model"] and each["batch"] == result["batch"]]
    agrees = all(_alike(each["losses"], result["losses"]) for each in others if each["system"] != "compile")
    return is_as_planned and agrees and (not result["cap"] or result["planned"] <= result["cap"])


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether losses are the same but for the order in which a head in chunks adds up its gradient."""
    return all(abs(a - b) <= ROUNDING * abs(b) for a, b in zip(one, other, strict=True))


if __name__ == "__main__":
    sys.exit(main())
