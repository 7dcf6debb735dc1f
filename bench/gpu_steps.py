"""The same training steps on two machines: batches and results that are transferred, and how far they differ."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
# How often the CPU trains from parameters a rounding apart, and how many times what differs then another processor may
# be off: it rounds otherwise in every step and everywhere, not at the start alone.
NUDGES = 2
MOST_NOISE = 4.0
RATE = 1e-3
CLIP = 1.0

# Two processors add in different orders, and Adam divides by a gradient's own size, which enlarges the rounding of
# small gradients from step to step; this bounds it.
EPSILON = 1e-6


@dataclass(frozen=True)
class Change:
    """What a parameter's change is worth on another processor, in parts of the CPU's change (norms).

    error: how far the two differ. noise: how far the CPU's own changes differ, where parameters begin a rounding apart.
    The gradient of a key's bias is zero in exact arithmetic: its change is rounding alone, its noise about 1.
    """

    error: float
    noise: float

    def agrees(self, tolerance: float) -> bool:
        """Whether it is within the tolerance or, where rounding alone is not, as large as rounding makes it."""
        return self.error <= (tolerance if self.noise <= tolerance else MOST_NOISE * self.noise)


def train_on_the_cpu(
    model: str, step: Any, start: Mapping[str, Any], case: Case, directory: Path, roundoff: float, steps: int = STEPS
) -> None:
    """Trains and writes batches, losses, trained parameters and their noise to `<model>.npz`; prints what there is.

    roundoff: the largest relative error of rounding, in the type that is computed in.
    """
    names = [spec.name for spec in step.signature.batch]
    batches = [arrays_of(case.example(seed), names) for seed in range(BATCHES)]
    stored = {f"batch.{i}.{name}": array for i, batch in enumerate(batches) for name, array in batch.items()}
    losses, trained = train(step, start, batches, steps)
    stored["losses"] = np.array(losses)
    stored.update({f"model.{name}": sample(value) for name, value in trained.items()})
    change = _changed(start, trained)
    for seed in range(NUDGES):
        nudged = _nudged(step, start, roundoff, seed)
        other = _changed(nudged, train(step, nudged, batches, steps)[1])
        for name in trained:
            known = stored.get(f"noise.{name}", np.zeros(()))
            stored[f"noise.{name}"] = np.maximum(known, _norm(other[name], change[name]))
    np.savez_compressed(directory / f"{model}.npz", allow_pickle=False, **stored)
    sizes = [f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in sorted(directory.glob(f"{model}.*"))]
    print(f"{model}: loss {losses[0]:.4f} → {losses[-1]:.4f} in {steps} steps; {', '.join(sizes)}", flush=True)


def train(
    step: Any, start: Mapping[str, Any], batches: Sequence[Mapping[str, np.ndarray]], steps: int
) -> tuple[list[float], dict[str, np.ndarray]]:
    """The losses of so many steps from a state, and the parameters and buffers that they leave."""
    step.load_state_dict(start)
    losses = [float(step.call_flat(batches[index % BATCHES])) for index in range(steps)]
    return losses, {name: np.array(value) for name, value in step.state_dict()["model"].items()}


def _nudged(step: Any, start: Mapping[str, Any], roundoff: float, seed: int) -> dict[str, Any]:
    """The state with each element of a parameter as it is, or a rounding larger or smaller."""
    random = np.random.default_rng(seed)
    model = dict(start["model"])
    for spec in sorted(step.signature.state, key=lambda spec: spec.name):
        if spec.role == "parameter":
            factor = 1.0 + roundoff * random.integers(-1, 2, spec.shape)
            moved = (model[spec.name] * factor).astype(np.float32)
            model.update(dict.fromkeys((spec.name, *spec.aliases), moved))
    return {**start, "model": model}


def drawn_state(step: Any) -> dict[str, Any]:
    """The state of a new step with parameters as transformers have them at the start, the same in every process."""
    random = np.random.default_rng(0)
    state = step.state_dict()
    for spec in sorted(step.signature.state, key=lambda spec: spec.name):
        if spec.role == "parameter":
            drawn = 0.02 * random.standard_normal(spec.shape, np.float32)
            scale = len(spec.shape) == 1 and spec.name.endswith("weight")  # Of a normalisation.
            state["model"].update(dict.fromkeys((spec.name, *spec.aliases), drawn + np.float32(scale)))
    return state


def bits_of(losses: Sequence[float], trained: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of losses and parameters."""
    content = [np.array(losses), *(trained[name] for name in sorted(trained))]
    return hashlib.sha256(b"".join(each.tobytes() for each in content)).hexdigest()


def stored_batches(step: Any, stored: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The batches that the CPU trained on."""
    names = [spec.name for spec in step.signature.batch]
    return [{name: stored[f"batch.{index}.{name}"] for name in names} for index in range(BATCHES)]


def loss_error(losses: Sequence[float], stored: Mapping[str, np.ndarray]) -> float:
    """The largest relative error of a loss."""
    return max(abs(a - b) / abs(b) for a, b in zip(losses, stored["losses"].tolist(), strict=True))


def changes(
    start: Mapping[str, Any], trained: Mapping[str, np.ndarray], stored: Mapping[str, np.ndarray]
) -> dict[str, Change]:
    """What the change of each parameter and buffer is worth."""
    found: dict[str, Change] = {}
    for name, value in trained.items():
        cpu = stored[f"model.{name}"]
        change = _norm(cpu, sample(start[name]))
        found[name] = Change(_part(_norm(sample(value), cpu), change), _part(float(stored[f"noise.{name}"]), change))
    return found


def _changed(start: Mapping[str, Any], trained: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The changes themselves, as far as they travel."""
    before = {name: np.asarray(start["model"][name], np.float64) for name in trained}
    return {name: sample(value.astype(np.float64) - before[name]) for name, value in trained.items()}


def _norm(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.linalg.norm(one.astype(np.float64) - other))


def _part(of: float, whole: float) -> float:
    return of / whole if whole else float("inf") if of else 0.0


def sample(value: np.ndarray) -> np.ndarray:
    """Every so many elements of a parameter, in one dimension; all of a small one."""
    return np.asarray(value).reshape(-1)[:: -(-value.size // SAMPLE)]


def eager_ms(case: Case) -> float:
    """PyTorch eager in float32 on the GPU, with its fused optimizer."""
    model = case.model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.1, eps=EPSILON, fused=True)
    trainer = EagerTrainer(model, case.loss, optimizer, clip_grad_norm=CLIP)
    batches = [on_gpu(case.example(seed)) for seed in range(BATCHES)]
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


def on_gpu(batch: Batch) -> Batch:
    """A batch in the memory of the GPU."""
    if isinstance(batch, Mapping):
        return {name: tensor.cuda() for name, tensor in batch.items()}
    return tuple(tensor.cuda() for tensor in batch)
