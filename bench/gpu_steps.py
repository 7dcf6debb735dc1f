"""Training steps that two machines take alike: batches and results that travel, and how far they differ."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.eager import EagerTrainer
from tests.models.case import Batch, Case

STEPS = 20
BATCHES = 2
TIMED = 50
SAMPLE = 65536  # At most so many elements of a parameter travel, spread evenly over it.
RATE = 1e-3
CLIP = 1.0

# Two processors add in different orders, and Adam divides by a gradient's own size, which enlarges the rounding of
# small gradients from step to step; this bounds it.
EPSILON = 1e-6


def train_on_the_cpu(model: str, step: Any, case: Case, directory: Path, steps: int = STEPS) -> None:
    """Trains and writes batches, losses and trained parameters to `<model>.npz`; prints what there is."""
    names = [spec.name for spec in step.signature.batch]
    batches = [arrays_of(case.example(seed), names) for seed in range(BATCHES)]
    stored = {f"batch.{i}.{name}": array for i, batch in enumerate(batches) for name, array in batch.items()}
    losses = [float(step.call_flat(batches[index % BATCHES])) for index in range(steps)]
    stored["losses"] = np.array(losses)
    stored.update({f"model.{name}": sample(value.numpy()) for name, value in step.state_dict()["model"].items()})
    np.savez_compressed(directory / f"{model}.npz", allow_pickle=False, **stored)
    sizes = [f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in sorted(directory.glob(f"{model}.*"))]
    print(f"{model}: loss {losses[0]:.4f} → {losses[-1]:.4f} in {steps} steps; {', '.join(sizes)}", flush=True)


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
