"""NaN, infinities and signed zeros in GPU code: every case of `tests/nonfinite_cases.py`, compared with eager there.

`python -m bench.gpu_nonfinite prepare DIRECTORY` compiles the cases for CPU and GPU (`target="cpu+cuda"`) in float32,
bfloat16 and float16, and leaves `<group>_<type>.dmc` in DIRECTORY. It needs no GPU. `--target cuda:iree` compiles for a
GPU that runs IREE's code alone.

`python -m bench.gpu_nonfinite run DIRECTORY` replays one step of each file on the GPU with `dmc.runtime` alone and
compares every result and gradient with PyTorch eager's on the same GPU and on its host: NaN for NaN, infinity for
infinity, numbers within a tolerance. A case agrees if it agrees with one of the two, for eager's own kernels differ in
places. It writes `bench/results/gpu_nonfinite.json`, and needs CUDA, CuPy, torch and what `dmc.runtime` needs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from bench.record import write_record
from tests.nonfinite import GROUPS, Outcome, Sweep, differences, eager, loss, numbers
from tests.nonfinite_cases import Case

RESULTS = Path(__file__).parent / "results" / "gpu_nonfinite.json"
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
PRECISION = {"f32": "fp32", "bf16": "bf16", "f16": "fp32"}
# Functions such as exp are approximated; of narrow types, a few roundings, of 0.4 % in bfloat16.
TOLERANCE = {"f32": 1e-4, "bf16": 3e-2, "f16": 5e-3}


@dataclass(frozen=True)
class Result:
    """One group of cases in one type. differences: by case that agrees with neither eager, what differs from the GPU's.

    host_only: the cases in which eager on the GPU is not what eager on its host is, and dmc does as on the host.
    """

    group: str
    type: str
    cases: int
    differences: Mapping[str, list[str]]
    host_only: list[str]


def main() -> int:
    """Prepares or runs; the exit code of `run` is 1 if a case differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--types", nargs="+", choices=tuple(TYPES), default=tuple(TYPES))
    parser.add_argument("--groups", nargs="+", choices=tuple(GROUPS), default=tuple(GROUPS))
    parser.add_argument("--without", nargs="+", default=(), help="cases that PyTorch on the GPU machine cannot do")
    parser.add_argument("--target", default="cpu+cuda", help="as of dmc.compile")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    chosen = [(group, type_) for type_ in options.types for group in options.groups]
    if options.mode == "prepare":
        for group, type_ in chosen:
            prepare(group, type_, options.directory, options.without, options.target)
        return 0
    results = [run(group, type_, options.directory, options.without) for group, type_ in chosen]
    record = {"device": torch.cuda.get_device_name(), "results": [asdict(result) for result in results]}
    write_record(options.out, record)
    return 1 if any(result.differences for result in results) else 0


def prepare(group: str, type_: str, directory: Path, without: Sequence[str] = (), target: str = "cpu+cuda") -> None:
    """Compiles one group of cases in one type."""
    import dmc
    from dmc.api import compile_artifact

    cases, (x, y) = _cases(group, without), numbers(group, TYPES[type_])
    artifact = compile_artifact(
        Sweep(cases, x.shape, x.dtype),
        loss=loss,
        optimizer=dmc.optim.SGD(lr=1.0),
        example=(x, y, torch.zeros(1, dtype=x.dtype)),
        precision=PRECISION[type_],
        target=target,
        # The comparison is made on the GPU, case by case.
        verify=False,
    )
    artifact.write(directory / f"{group}_{type_}.dmc")
    print(f"{group} {type_}: {len(cases)} cases", flush=True)


def run(group: str, type_: str, directory: Path, without: Sequence[str] = (), device: str | None = "cuda") -> Result:
    """Replays one file and compares; prints the outcome. `device` None: the CPU, against itself."""
    cases, (x, y) = _cases(group, without), numbers(group, TYPES[type_])
    actual = _replayed(directory / f"{group}_{type_}.dmc", cases, (x, y), device)
    host = eager(cases, x, y)
    near = eager(cases, x.cuda(), y.cuda()) if device else host
    from_near, from_host = (_by_case(cases, expected, actual, TOLERANCE[type_]) for expected in (near, host))
    both = {name: said for name, said in from_near.items() if name in from_host}
    result = Result(group, type_, len(cases), both, sorted(from_near.keys() - both.keys()))
    print(json.dumps(asdict(result)), flush=True)
    return result


def _cases(group: str, without: Sequence[str]) -> dict[str, Case]:
    return {name: case for name, case in GROUPS[group].items() if name not in without}


def _replayed(path: Path, cases: Mapping[str, Case], operands: tuple[Tensor, Tensor], device: str | None) -> Outcome:
    """One step of a file: the results, and by descent at rate 1 the gradients."""
    from dmc.runtime import load

    step = load(path, device=device)
    _, results = step(*operands, torch.zeros(1, dtype=operands[0].dtype))
    state = step.state_dict()["model"]
    outcome = Outcome({name: _tensor(results[name]) for name in cases}, (-_tensor(state["p"]), -_tensor(state["q"])))
    step.close()
    return outcome


def _tensor(value: object) -> Tensor:
    """An array as a tensor; bfloat16 via f32, since numpy lacks it."""
    array = np.array(value)
    return torch.as_tensor(array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array)


def _by_case(cases: Mapping[str, Case], expected: Outcome, actual: Outcome, tolerance: float) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for said in differences(cases, expected, actual, tolerance):
        found.setdefault(said.partition(",")[0], []).append(said)
    return found


if __name__ == "__main__":
    sys.exit(main())
