"""Ranks on GPUs of their own train as one GPU does: the same losses and parameters, twice with the same bits.

`python -m bench.multi_gpu_correctness prepare DIRECTORY` compiles the cases, on any machine: each model alone and under
its plans. `… alone DIRECTORY` trains each alone on one GPU, with parameters drawn there (in the files they are zero).
`torchrun --nproc-per-node 2 -m bench.multi_gpu_correctness run DIRECTORY` trains those whose plan has as many ranks as
were started: half of the steps with the global batch, the others with each rank's own part of it; then all of them
again from the start. It writes `bench/results/multi_gpu_correctness.json`, with the results of earlier runs on other
numbers of GPUs, and exits with 1 where a case does not agree.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_steps import bits_of, drawn_state
from bench.record import write_record

RESULTS = Path(__file__).parent / "results" / "multi_gpu_correctness.json"
STEPS, BATCHES = 50, 4
ALONE = "alone"
# Of a loss, and of each parameter's change (norms). Ranks add in another order than one GPU, and Adam enlarges that.
LOSS_TOLERANCE = {"fp32": 2e-5, "bf16-mixed": 1e-2}
CHANGE_TOLERANCE = {"fp32": 2e-2, "bf16-mixed": 3e-1}

Batch = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Result:
    """A model under a plan, beside itself alone. Errors are relative: of a loss, and of each parameter's change.

    same_bits: whether the second run from the start gave the same losses and parameters. replicas: whether ranks that
    hold the same hold the same bits.
    """

    model: str
    plan: str
    ranks: int
    agrees: bool
    same_bits: bool
    replicas: bool
    first_loss: float
    last_loss: float
    worst_loss_error: float
    worst_change_error: float
    worst_change: str
    load_s: float
    step_ms: float


def main() -> int:
    """Does what the command line asks for; the exit code is 1 where a case does not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "alone", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--plans", nargs="+", help="by default all that there are files for")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        return prepare(options.directory, options.models, options.plans)
    chosen = [(m, p) for m, p in files(options.directory) if m in (options.models or [m])]
    if options.mode == "alone":
        for model in dict.fromkeys(model for model, _ in chosen):
            train_alone(model, options.directory)
        return 0
    ranks = int(os.environ["WORLD_SIZE"])
    chosen = [(m, p) for m, p in chosen if p in (options.plans or [p]) and p != ALONE and _ranks(p) == ranks]
    results = [run(model, plan, ranks, options.directory) for model, plan in chosen]
    if int(os.environ["RANK"]) > 0:
        return 0  # torchrun ends all ranks when one fails; the first has yet to write.
    _write(options.out, results, ranks)
    return 0 if results and all(each.agrees and each.same_bits and each.replicas for each in results) else 1


def _ranks(plan: str) -> int:
    """`dp2×tp2` is for four."""
    sizes = [int(part[-1]) for part in plan.split("×") if part[-1].isdecimal()]
    return int(np.prod(sizes))


def files(directory: Path) -> list[tuple[str, str]]:
    """The models and plans that there are files for."""
    return [(path.stem.split("@")[0], path.stem.split("@")[1]) for path in sorted(directory.glob("*@*.dmc"))]


def prepare(directory: Path, models: Sequence[str] | None, plans: Sequence[str] | None) -> int:
    """Compiles what is not there yet, and stores batches."""
    from bench.gpu_steps import arrays_of
    from bench.multi_gpu_cases import CASES, compile_case
    from dmc.runtime import Artifact
    from tests.models import build

    for model in models or CASES:
        wanted = [ALONE, *(plan for plan in CASES[model].plans if plan in (plans or [plan]))]
        for plan in wanted:
            path, begin = directory / f"{model}@{plan}.dmc", time.perf_counter()
            if not path.exists():
                compile_case(model, plan, path)
                seconds = time.perf_counter() - begin
                print(f"{path.name}: {seconds:.0f} s, {path.stat().st_size / 1e6:.2f} MB", flush=True)
        case = build(CASES[model].model, CASES[model].dropout)
        names = [spec.name for spec in Artifact.read(directory / f"{model}@{ALONE}.dmc").signature.batch]
        batches = [arrays_of(case.example(seed), names) for seed in range(BATCHES)]
        stored = {f"{i}.{name}": array for i, batch in enumerate(batches) for name, array in batch.items()}
        np.savez_compressed(directory / f"{model}.npz", allow_pickle=False, **stored)
    return 0


def batches_of(model: str, directory: Path) -> list[dict[str, np.ndarray]]:
    """The global batches."""
    stored = dict(np.load(directory / f"{model}.npz"))
    names = {name.partition(".")[2] for name in stored}
    return [{name: stored[f"{index}.{name}"] for name in names} for index in range(BATCHES)]


def train_alone(model: str, directory: Path) -> None:
    """Trains on one GPU and leaves losses and parameters, at the start and at the end."""
    from dmc.runtime import load

    step = load(directory / f"{model}@{ALONE}.dmc", device="cuda")
    start = drawn_state(step)
    step.load_state_dict(start)
    losses = train(step, [batches_of(model, directory)] * 2)
    stored = {f"start.{name}": array for name, array in start["model"].items()}
    stored |= {f"end.{name}": array for name, array in step.state_dict()["model"].items()}
    np.savez(directory / f"{model}.alone.npz", allow_pickle=False, losses=np.array(losses), **stored)
    step.close()
    print(f"{model}: {losses[0]:.5f} → {losses[-1]:.5f} on one GPU", flush=True)


def run(model: str, plan: str, ranks: int, directory: Path) -> Result:
    """Trains one case, twice, and compares it with the model alone."""
    from dmc.runtime import load

    begin = time.perf_counter()
    step = load(directory / f"{model}@{plan}.dmc", device="cuda")
    loaded = time.perf_counter() - begin
    start, whole = drawn_state(step), batches_of(model, directory)
    given = [whole, [own_part(step, batch, int(os.environ["RANK"])) for batch in whole]]
    step.load_state_dict(start)
    losses = train(step, given)
    trained = step.state_dict()["model"]
    differing = step.differing_replicas()
    step.load_state_dict(start)
    begin = time.perf_counter()
    again = train(step, given)
    milliseconds = (time.perf_counter() - begin) / STEPS * 1e3
    bits = bits_of(losses, trained) == bits_of(again, step.state_dict()["model"])
    stored = dict(np.load(directory / f"{model}.alone.npz"))
    error = max(abs(a - b) / abs(b) for a, b in zip(losses, stored["losses"].tolist(), strict=True))
    errors = {n: _change_error(stored[f"start.{n}"], trained[n], stored[f"end.{n}"]) for n in trained}
    worst, precision = max(errors, key=errors.__getitem__), step.snapshot().precision
    result = Result(
        model=model,
        plan=plan,
        ranks=ranks,
        agrees=error <= LOSS_TOLERANCE[precision] and errors[worst] <= CHANGE_TOLERANCE[precision],
        same_bits=bits,
        replicas=not differing,
        first_loss=losses[0],
        last_loss=losses[-1],
        worst_loss_error=error,
        worst_change_error=errors[worst],
        worst_change=worst,
        load_s=loaded,
        step_ms=milliseconds,
    )
    if step.is_first:
        print(json.dumps(asdict(result)), flush=True)
    step.close()
    return result


def train(step: Any, given: Sequence[Sequence[Batch]]) -> list[float]:
    """Half of the steps with the first of two sets of batches, half with the second; the losses."""
    halves = [given[0]] * (STEPS // 2) + [given[1]] * (STEPS - STEPS // 2)
    return [float(_loss(step.call_flat(batches[index % BATCHES]))) for index, batches in enumerate(halves)]


def own_part(step: Any, batch: Batch, rank: int) -> dict[str, np.ndarray]:
    """A rank's part of a global batch, as a loader of its own would give it; the whole of what another stage reads."""
    from dmc.runtime.tensors.ranks import Ranks

    spreads = Ranks(step.signature).spreads
    return {n: spreads[n].part(array, rank) if rank in spreads[n].holders else array for n, array in batch.items()}


def _change_error(start: np.ndarray, here: np.ndarray, alone: np.ndarray) -> float:
    """‖here - alone‖ / ‖alone - start‖, where a change counts for no less than a millionth of the value and of one.

    A key's bias has no gradient in exact arithmetic: its change is rounding alone.
    """
    change = np.linalg.norm(alone.astype(np.float64) - start)
    rounding = 1e-6 * (np.linalg.norm(alone) + alone.size**0.5)
    return float(np.linalg.norm(here.astype(np.float64) - alone) / max(change, rounding))


def _loss(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _write(path: Path, results: Sequence[Result], ranks: int) -> None:
    known = json.loads(path.read_text())["results"] if path.exists() else []
    kept = [each for each in known if each["ranks"] != ranks]
    write_record(path, {"steps": STEPS, "results": [*kept, *(asdict(each) for each in results)]})


if __name__ == "__main__":
    sys.exit(main())
