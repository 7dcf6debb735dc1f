"""The same training steps on a GPU as on the CPU: compiled where there is no GPU, trained on one.

`python -m bench.gpu_first_light prepare DIRECTORY` compiles the demo GPT, a BERT and the LSTM for CUDA and for the CPU,
trains 20 steps on the CPU and leaves in DIRECTORY what the GPU machine needs: `<model>.dmc` (with the initial state),
`<model>.npz` (batches, losses and trained parameters of the CPU, of large ones a sample). It needs no GPU.

`python -m bench.gpu_first_light run DIRECTORY` trains the same 20 steps on the GPU with `dmc.runtime` alone, compares
losses and parameters with the CPU's, measures the time of a step beside PyTorch eager's on the same model, and writes
`bench/results/gpu_first_light.json`. It needs CUDA, torch, transformers and what `dmc.runtime` needs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.record import write_record
from tests.eager import EagerTrainer
from tests.models import bert_small, demo_gpt, lstm
from tests.models.case import Batch, Case

STEPS = 20
BATCHES = 2
TIMED = 50
SAMPLE = 65536  # At most so many elements of a parameter travel, spread evenly over it.
RATE = 1e-3
CLIP = 1.0
RESULTS = Path(__file__).parent / "results" / "gpu_first_light.json"

# Two processors add in different orders, and Adam divides by a gradient's own size, which enlarges the rounding of
# small gradients from step to step; epsilon 1e-6 bounds that. Batches come round again, so the losses fall, and by far
# more than this in 20 steps.
EPSILON = 1e-6
LOSS_TOLERANCE = 1e-3
CHANGE_TOLERANCE = 2e-2

# No dropout in BERT and the LSTM either: the comparison is of values.
CASES: Mapping[str, Callable[[], Case]] = {
    "demo_gpt": lambda: demo_gpt.build_bench(0.0),
    "bert": lambda: bert_small.build_portable(0.0),
    "lstm": lambda: lstm.build_bench(0.0),
}


@dataclass(frozen=True)
class Result:
    """One model on the GPU. Errors are relative to the CPU's: of a loss, and of each parameter's change (norms; "raw"
    counts the rounding of the values themselves too).

    steps_ms: medians of `TIMED` steps, the loss read after each.
    """

    model: str
    agrees: bool
    first_loss: float
    last_loss: float
    last_loss_cpu: float
    worst_loss_error: float
    worst_change_error: float
    worst_change: str
    worst_raw_change_error: float
    dmc_ms: float
    eager_ms: float


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 where a model does not agree."""
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
    return 0 if all(result.agrees for result in results) else 1


def prepare(model: str, directory: Path) -> None:
    """Compiles for both machines and trains on the CPU; prints sizes and the losses at both ends."""
    import dmc
    from dmc.api import compile_artifact

    case = CASES[model]()
    optimizer = dmc.optim.AdamW(lr=RATE, weight_decay=0.1, eps=EPSILON, clip_grad_norm=CLIP)
    options: dict[str, Any] = {"loss": case.loss, "optimizer": optimizer, "example": case.example(0)}
    compile_artifact(case.model, target="cuda", **options).write(directory / f"{model}.dmc")
    train_on_the_cpu(model, dmc.compile(case.model, target="cpu", **options), case, directory)


def train_on_the_cpu(model: str, step: Any, case: Case, directory: Path) -> None:
    """Trains `STEPS` steps and writes batches, losses and trained parameters to `<model>.npz`; prints what there is."""
    names = [spec.name for spec in step.signature.batch]
    batches = [arrays_of(case.example(seed), names) for seed in range(BATCHES)]
    stored = {f"batch.{i}.{name}": array for i, batch in enumerate(batches) for name, array in batch.items()}
    losses = [float(step.call_flat(batches[index % BATCHES])) for index in range(STEPS)]
    stored["losses"] = np.array(losses)
    stored.update({f"model.{name}": sample(value.numpy()) for name, value in step.state_dict()["model"].items()})
    np.savez_compressed(directory / f"{model}.npz", allow_pickle=False, **stored)
    sizes = [f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in sorted(directory.glob(f"{model}.*"))]
    print(f"{model}: loss {losses[0]:.4f} → {losses[-1]:.4f} in {STEPS} steps; {', '.join(sizes)}", flush=True)


def stored_batches(step: Any, stored: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The batches that the CPU trained on."""
    names = [spec.name for spec in step.signature.batch]
    return [{name: stored[f"batch.{index}.{name}"] for name in names} for index in range(BATCHES)]


def errors_of(
    losses: list[float], start: Mapping[str, Any], trained: Mapping[str, Any], stored: Mapping[str, np.ndarray]
) -> tuple[float, dict[str, float]]:
    """The largest relative error of a loss, and of each parameter that of its change (`change_error`)."""
    loss = max(abs(a - b) / abs(b) for a, b in zip(losses, stored["losses"].tolist(), strict=True))
    return loss, {
        name: change_error(sample(start[name]), sample(trained[name]), stored[f"model.{name}"]) for name in trained
    }


def sample(value: np.ndarray) -> np.ndarray:
    """Every so many elements of a parameter, in one dimension; all of a small one."""
    return np.asarray(value).reshape(-1)[:: -(-value.size // SAMPLE)]


def run(model: str, directory: Path) -> Result:
    """Trains on the GPU and compares with the stored numbers of the CPU; prints the outcome."""
    from dmc.runtime.step import load

    stored = dict(np.load(directory / f"{model}.npz"))
    step = load(directory / f"{model}.dmc")
    start = step.state_dict()["model"]
    batches = stored_batches(step, stored)
    losses = [float(step.call_flat(batches[index % BATCHES])) for index in range(STEPS)]
    trained = step.state_dict()["model"]
    loss_error, errors = errors_of(losses, start, trained, stored)
    worst = max(errors, key=errors.__getitem__)
    result = Result(
        model=model,
        agrees=loss_error <= LOSS_TOLERANCE and errors[worst] <= CHANGE_TOLERANCE,
        first_loss=losses[0],
        last_loss=losses[-1],
        last_loss_cpu=float(stored["losses"][-1]),
        worst_loss_error=loss_error,
        worst_change_error=errors[worst],
        worst_change=worst,
        worst_raw_change_error=max(
            float(np.linalg.norm(sample(trained[name]) - stored[f"model.{name}"].astype(np.float64)))
            / max(float(np.linalg.norm(stored[f"model.{name}"].astype(np.float64) - sample(start[name]))), 1e-30)
            for name in trained
        ),
        dmc_ms=median_ms(lambda index: float(step.call_flat(batches[index % BATCHES]))),
        eager_ms=eager_ms(CASES[model]()),
    )
    print(json.dumps(asdict(result)), flush=True)
    step.close()
    return result


def change_error(start: np.ndarray, gpu: np.ndarray, cpu: np.ndarray) -> float:
    """‖gpu - cpu‖ / ‖cpu - start‖, where a change counts for no less than a millionth of the value and of one.

    A key's bias has no gradient in exact arithmetic: its change is rounding alone, and means nothing.
    """
    change = np.linalg.norm(cpu.astype(np.float64) - start)
    rounding = 1e-6 * (np.linalg.norm(cpu) + cpu.size**0.5)
    return float(np.linalg.norm(gpu.astype(np.float64) - cpu) / max(change, rounding))


def eager_ms(case: Case) -> float:
    """PyTorch eager in float32 on the GPU, with its fused optimizer."""
    model = case.model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1, eps=EPSILON, fused=True)
    trainer = EagerTrainer(model, case.loss, optimizer, clip_grad_norm=CLIP)
    batches = [_on_gpu(case.example(seed)) for seed in range(BATCHES)]
    return median_ms(lambda index: trainer.step(batches[index % BATCHES]))


def median_ms(step: Callable[[int], float]) -> float:
    """The median time of a step, which returns its loss, in milliseconds."""
    seconds: list[float] = []
    for index in range(TIMED + 5):
        begin = time.perf_counter()
        step(index)  # Reading the loss waits for the step.
        seconds.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(seconds[5:])


def arrays_of(batch: Batch, names: list[str]) -> dict[str, np.ndarray]:
    """A batch as arrays, by the names of the step's inputs."""
    values = list(batch.values()) if isinstance(batch, Mapping) else list(batch)
    return dict(zip(names, [value.numpy() for value in values], strict=True))


def _on_gpu(batch: Batch) -> Batch:
    if isinstance(batch, Mapping):
        return {name: tensor.cuda() for name, tensor in batch.items()}
    return tuple(tensor.cuda() for tensor in batch)


if __name__ == "__main__":
    sys.exit(main())
