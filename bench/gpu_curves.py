"""Fifty steps of small models on one GPU, in fp32 and bf16-mixed: twice the same bits, beside PyTorch's curve.

`python -m bench.gpu_curves prepare DIRECTORY` compiles them on any machine. `python -m bench.gpu_curves run DIRECTORY`
trains each twice from one state on the GPU machine, and PyTorch eager there from the same; prints and writes the
largest relative error of a loss, and whether the bits were the same. Nothing is dropped: losses can be compared.
Rounding grows over fifty steps: how much it may, four more runs of eager tell, from parameters 1e-7 away.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from bench.gpu_steps import BATCHES, CLIP, EPSILON, RATE, arrays_of, bits_of, drawn_state, on_gpu, train
from bench.record import write_record
from tests.eager import EagerTrainer
from tests.models import build
from tests.models.case import Case, image_batch

RESULTS = Path(__file__).parent / "results" / "gpu_curves.json"
MODELS = ("gpt2", "llama", "bert", "roberta", "t5", "vit", "convolutions")
PRECISIONS = ("fp32", "bf16-mixed")
STEPS, DECAY = 50, 0.1
# Of a loss: fifty steps, each of which adds rounding to that of those before.
TOLERANCE: Mapping[str, float] = {"fp32": 1e-4, "bf16-mixed": 1e-2}
# Batch norms magnify rounding: PyTorch in f32 is within 8e-4 of itself in f64 after 30 steps of these convolutions, and
# two runs from parameters that differ by 6e-8 are within 4e-4 (on a CPU).
CHAOTIC: Mapping[str, float] = {"convolutions": 5e-3}
# Parameters that are a rounding away, how many are tried, and how many times eager's own error from these is right.
_ROUNDING, _NEAR, _TIMES = 1e-7, 4, 2.0


class Convolutions(nn.Module):
    """Strided, dilated, padded and transposed convolutions, with biases and batch norms, over images side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.strided = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, 2, padding=1)
        self.dilated, self.shortcut = nn.Conv2d(64, 64, 3, padding=2, dilation=2), nn.Conv2d(32, 64, 1, 2)
        self.up, self.last = nn.ConvTranspose2d(64, 32, 2, 2), nn.Conv2d(64, 64, (3, 5), padding=(1, 2))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for channels in (32, 64, 64, 64))
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, 3, 32, 32] → f32[batch, 10]"""
        x = functional.relu(self.norms[0](self.first(x)))
        y = functional.relu(self.norms[1](self.strided(x)))
        y = functional.relu(self.norms[2](self.dilated(y)) + self.shortcut(x))
        y = functional.relu(self.norms[3](self.last(torch.cat([self.up(y), x], 1))))
        return self.head(functional.max_pool2d(y, 3, 2, padding=1).mean((2, 3)))


def case_of(name: str) -> Case:
    """A case of the tests, or the convolutions."""
    if name != "convolutions":
        return build(name, 0.0)
    torch.manual_seed(0)
    return Case(name, Convolutions().train(), functional.cross_entropy, lambda seed: image_batch(seed, 64, 32, 10))


@dataclass(frozen=True)
class Result:
    """One model in one precision. error: the largest of a loss, relative to PyTorch's. apart: that of PyTorch's own
    losses from parameters a rounding away.
    """

    model: str
    precision: str
    losses: list[float]
    eager: list[float]
    error: float
    apart: float
    agrees: bool
    same_bits: bool


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 where a curve differs, or bits do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    cases = [(model, precision) for model in options.models for precision in PRECISIONS]
    if options.mode == "prepare":
        for model, precision in cases:
            prepare(model, precision, options.directory)
        return 0
    results = [run(*each, options.directory) for each in cases if _path(*each, options.directory).exists()]
    write_record(options.out, {"device": torch.cuda.get_device_name(), "results": [asdict(each) for each in results]})
    return 0 if all(each.agrees and each.same_bits for each in results) else 1


def _path(model: str, precision: str, directory: Path) -> Path:
    return directory / f"{model}_{precision}.dmc"


def prepare(model: str, precision: str, directory: Path) -> None:
    """Compiles a model for a GPU."""
    import dmc
    from dmc.api import compile_artifact

    case = case_of(model)
    optimizer = dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, eps=EPSILON, clip_grad_norm=CLIP)
    compile_artifact(
        case.model, loss=case.loss, optimizer=optimizer, example=case.example(0), precision=precision, target="cuda"
    ).write(_path(model, precision, directory))
    print(f"{model}, {precision}", flush=True)


def run(model: str, precision: str, directory: Path) -> Result:
    """Trains a model twice, and PyTorch's once."""
    from dmc.runtime import load

    step, case = load(_path(model, precision, directory), device="cuda"), case_of(model)
    start = drawn_state(step)
    names = [spec.name for spec in step.signature.batch]
    batches = [arrays_of(case.example(seed), names) for seed in range(BATCHES)]
    losses, trained = train(step, start, batches, STEPS)
    again, retrained = train(step, start, batches, STEPS)
    step.close()
    eager = _eager(case, precision, start["model"])
    error = _error(losses, eager)
    apart = max(_error(_eager(case, precision, _moved(start["model"], seed)), eager) for seed in range(_NEAR))
    same = bits_of(losses, trained) == bits_of(again, retrained)
    agrees = error <= max(TOLERANCE[precision], CHAOTIC.get(model, 0.0), _TIMES * apart)
    result = Result(model, precision, losses, eager, error, apart, agrees, same)
    print(json.dumps(asdict(result)), flush=True)
    return result


def _error(losses: Sequence[float], wanted: Sequence[float]) -> float:
    return float(max(abs(a - b) / abs(b) for a, b in zip(losses, wanted, strict=True)))


def _moved(parameters: Mapping[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Parameters a rounding away; one that has two names is moved once."""
    draws = np.random.default_rng(seed)
    moved: dict[int, np.ndarray] = {}
    for value in parameters.values():
        if id(value) not in moved:
            moved[id(value)] = (value * (1.0 + _ROUNDING * draws.standard_normal(value.shape))).astype(value.dtype)
    return {name: moved[id(value)] for name, value in parameters.items()}


def _eager(case: Case, precision: str, start: Mapping[str, Any]) -> list[float]:
    """The losses of PyTorch on the GPU from the same parameters."""
    # Convolutions would be computed in TF32 otherwise; matrix products are not.
    torch.backends.cudnn.allow_tf32 = False
    model = case.model.cuda()
    with torch.no_grad():
        for name, parameter in model.named_parameters(remove_duplicate=False):
            parameter.copy_(torch.from_numpy(np.asarray(start[name])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, eps=EPSILON)
    trainer = EagerTrainer(model, case.loss, optimizer, clip_grad_norm=CLIP, precision=precision)
    return [trainer.step(on_gpu(case.example(index % BATCHES))) for index in range(STEPS)]


if __name__ == "__main__":
    sys.exit(main())
