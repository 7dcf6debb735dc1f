"""Fifty steps of small transformers on one GPU, in fp32 and bf16-mixed: twice the same bits, beside PyTorch's curve.

`python -m bench.gpu_curves prepare DIRECTORY` compiles them on any machine. `python -m bench.gpu_curves run DIRECTORY`
trains each twice from one state on the GPU machine, and PyTorch eager there from the same; prints and writes the
largest relative error of a loss, and whether the bits were the same. Nothing is dropped: losses can be compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.gpu_steps import BATCHES, CLIP, EPSILON, RATE, arrays_of, bits_of, drawn_state, on_gpu, train
from bench.record import write_record
from tests.eager import EagerTrainer
from tests.models import build
from tests.models.case import Case

RESULTS = Path(__file__).parent / "results" / "gpu_curves.json"
MODELS, PRECISIONS = ("gpt2", "llama", "bert"), ("fp32", "bf16-mixed")
STEPS, DECAY = 50, 0.1
# Of a loss: fifty steps, each of which adds rounding to that of those before.
TOLERANCE: Mapping[str, float] = {"fp32": 1e-4, "bf16-mixed": 1e-2}


@dataclass(frozen=True)
class Result:
    """One model in one precision. error: the largest of a loss, relative to PyTorch's."""

    model: str
    precision: str
    losses: list[float]
    eager: list[float]
    error: float
    agrees: bool
    same_bits: bool


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 where a curve differs, or bits do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    cases = [(model, precision) for model in MODELS for precision in PRECISIONS]
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

    case = build(model, 0.0)
    optimizer = dmc.optim.AdamW(lr=RATE, weight_decay=DECAY, eps=EPSILON, clip_grad_norm=CLIP)
    compile_artifact(
        case.model, loss=case.loss, optimizer=optimizer, example=case.example(0), precision=precision, target="cuda"
    ).write(_path(model, precision, directory))
    print(f"{model}, {precision}", flush=True)


def run(model: str, precision: str, directory: Path) -> Result:
    """Trains a model twice, and PyTorch's once."""
    from dmc.runtime.step import load

    step, case = load(_path(model, precision, directory), device="cuda"), build(model, 0.0)
    start = drawn_state(step)
    names = [spec.name for spec in step.signature.batch]
    batches = [arrays_of(case.example(seed), names) for seed in range(BATCHES)]
    losses, trained = train(step, start, batches, STEPS)
    again, retrained = train(step, start, batches, STEPS)
    step.close()
    eager = _eager(case, precision, start["model"])
    error = float(max(abs(a - b) / abs(b) for a, b in zip(losses, eager, strict=True)))
    same = bits_of(losses, trained) == bits_of(again, retrained)
    result = Result(model, precision, losses, eager, error, error <= TOLERANCE[precision], same)
    print(json.dumps(asdict(result)), flush=True)
    return result


def _eager(case: Case, precision: str, start: Mapping[str, Any]) -> list[float]:
    """The losses of PyTorch on the GPU from the same parameters."""
    model = case.model.cuda()
    with torch.no_grad():
        for name, parameter in model.named_parameters(remove_duplicate=False):
            parameter.copy_(torch.from_numpy(np.asarray(start[name])))
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, eps=EPSILON)
    trainer = EagerTrainer(model, case.loss, optimizer, clip_grad_norm=CLIP, precision=precision)
    return [trainer.step(on_gpu(case.example(index % BATCHES))) for index in range(STEPS)]


if __name__ == "__main__":
    sys.exit(main())
