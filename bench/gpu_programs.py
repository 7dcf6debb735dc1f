"""Evaluation and several shapes on a GPU: each program of a file, replayed there and executed on the CPU.

`python -m bench.gpu_programs prepare DIRECTORY` compiles models with dropout or running statistics for two batch sizes
and for evaluation (`target="cpu+cuda"`); it needs no GPU. `python -m bench.gpu_programs run DIRECTORY` trains both
devices from one state by batches of either size in turn, evaluates after each step, and compares losses and logits;
twice on the GPU, which must give the same bits. It writes `bench/results/gpu_programs.json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_steps import CLIP, EPSILON, RATE, arrays_of, bits_of, drawn_state
from bench.record import write_record
from tests.models import build
from tests.models.case import Batch, Case

MODELS = ("gpt2", "bert", "vit", "resnet", "lstm")
# BatchNorm of so small a batch is chaotic, as in `bench.gpu_replay`.
STEPS = {"resnet": 2}
RESULTS = Path(__file__).parent / "results" / "gpu_programs.json"
# Of a loss and of logits, relative to the largest.
TOLERANCE = 1e-4

Numbers = list[np.ndarray]


@dataclass(frozen=True)
class Result:
    """One model. programs: in its file. worst: the largest relative error of a training loss, and of an output of an
    evaluation. same_bits: whether the second run on the GPU gave the same.
    """

    model: str
    programs: tuple[str, ...]
    worst: Mapping[str, float]
    same_bits: bool

    @property
    def agrees(self) -> bool:
        return self.same_bits and max(self.worst.values()) <= TOLERANCE


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 where a model does not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.mode == "prepare":
        for model in options.models:
            prepare(model, options.directory)
        return 0
    import cupy  # pyright: ignore[reportMissingImports]

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    results = [run(model, options.directory) for model in options.models]
    write_record(options.out, {"device": device, "results": [asdict(result) for result in results]})
    return 0 if all(result.agrees for result in results) else 1


def prepare(model: str, directory: Path) -> None:
    """Compiles every program, and writes the batches."""
    import dmc

    case = build(model, 0.1)
    for parameter in case.model.parameters():
        parameter.data.zero_()
    artifact = dmc.compile_artifact(
        case.model,
        loss=case.loss,
        optimizer=dmc.optim.AdamW(lr=RATE, weight_decay=0.1, eps=EPSILON, clip_grad_norm=CLIP),
        example=[_batch(case, whole) for whole in (True, False)],
        evaluation=_with_logits(case),
        target="cpu+cuda",
        # Parameters are zero in the file; the numbers are compared where it runs.
        verify=False,
    )
    artifact.write(directory / f"{model}.dmc")
    names = [spec.name for spec in artifact.signature.batch]
    stored: dict[str, np.ndarray] = {}
    for whole in (True, False):
        arrays = arrays_of(_batch(case, whole), names)
        stored.update({f"{whole:d}.{name}": array for name, array in arrays.items()})
    np.savez_compressed(directory / f"{model}.npz", allow_pickle=False, **stored)
    print(model, *artifact.programs, flush=True)


def _with_logits(case: Case) -> Any:
    """What an evaluation returns: the loss, and the logits beside it."""
    if (loss := case.loss) is None:
        return lambda output: (output.loss, output.logits)
    return lambda logits, targets: (loss(logits, targets), logits)


def run(model: str, directory: Path) -> Result:
    """Trains and evaluates on both devices; prints the outcome."""
    from dmc.runtime import load

    stored = dict(np.load(directory / f"{model}.npz"))
    path = directory / f"{model}.dmc"
    cpu, gpu = load(path, device="cpu"), load(path, device="cuda")
    start = drawn_state(cpu)
    expected, found, again = (_numbers(step, start, stored, STEPS.get(model, 6)) for step in (cpu, gpu, gpu))
    result = Result(
        model,
        ("training", *gpu.snapshot().programs),
        {kind: max(map(_error, found[kind], expected[kind])) for kind in expected},
        all(bits_of([], _named(found[kind])) == bits_of([], _named(again[kind])) for kind in found),
    )
    print(asdict(result), flush=True)
    cpu.close()
    gpu.close()
    return result


def _batch(case: Case, whole: bool) -> Batch:
    """A batch, or the first half of one."""
    part = slice(None) if whole else slice(len(_values(case.example(0))[0]) // 2)
    batch = case.example(int(whole))
    if isinstance(batch, Mapping):
        return {name: tensor[part] for name, tensor in batch.items()}
    return tuple(tensor[part] for tensor in batch)


def _values(batch: Batch) -> list[Any]:
    return list(batch.values()) if isinstance(batch, Mapping) else list(batch)


def _numbers(step: Any, start: Mapping[str, Any], stored: Mapping[str, np.ndarray], steps: int) -> dict[str, Numbers]:
    """Losses of steps, and all outputs of evaluations, of batches of either size in turn."""
    found: dict[str, Numbers] = {"training": [], "evaluation": []}
    step.load_state_dict(start)
    for number in range(steps):
        size = f"{number % 2}."
        batch = {name.removeprefix(size): array for name, array in stored.items() if name.startswith(size)}
        found["training"].append(np.array(float(step.call_flat(batch))))
        found["evaluation"] += step.evaluated(batch).values()
    return found


def _named(arrays: Numbers) -> dict[str, np.ndarray]:
    return {str(number): array for number, array in enumerate(arrays)}


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    largest = np.abs(expected).max()
    return float(np.abs(found.astype(np.float64) - expected).max() / (largest or 1.0))


if __name__ == "__main__":
    sys.exit(main())
