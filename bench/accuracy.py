"""How far reductions are from float64: dmc's beside PyTorch eager's, on the same processor, or on the same GPU.

`python -m bench.accuracy prepare DIRECTORY` compiles the cases and leaves `<type>.dmc` in DIRECTORY. It needs no GPU,
also for `--target cuda`. `python -m bench.accuracy run DIRECTORY --device cuda` runs one step of each file with
`dmc.runtime` alone, and eager on the same tensors, prints a table and writes `bench/results/accuracy_cuda.json`. An
error is ‖actual - exact‖ / ‖exact‖, where exact is eager's in float64.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.record import write_record

RESULTS = Path(__file__).parent / "results"
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
# Elements of a row or a column, and how many there are of all together.
SIZES, MOST = (100, 1_000, 30_000, 1_000_000), 1_000_000
LINES = 16
# Of numbers whose mean is large beside their deviation.
MEAN, DEVIATION = 1000.0, 0.5
Case = Callable[[Tensor], Tensor]
ROWS: Mapping[str, Case] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "var": lambda x: x.var(1),
    "std": lambda x: x.std(1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "logsumexp": lambda x: x.logsumexp(1),
    "softmax": lambda x: x.softmax(1),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[1:]),
    "rms_norm": lambda x: functional.rms_norm(x, x.shape[1:], eps=1e-6),
    "group_norm": lambda x: functional.group_norm(x[:, :, None], 2)[:, :, 0],
    "instance_norm": lambda x: functional.instance_norm(x[None])[0],
    "total": lambda x: x.sum(),
    "square": lambda x: (x * x).sum(),
}
COLUMNS: Mapping[str, Case] = {
    "sum by columns": lambda x: x.sum(0),
    "mean by columns": lambda x: x.mean(0),
    "var by columns": lambda x: x.var(0),
    "batch_norm": lambda x: functional.batch_norm(x, None, None, training=True),
    "softmax by columns": lambda x: x.softmax(0),
}


@dataclass(frozen=True)
class Line:
    """The errors of one case: relative to the norm of the exact result."""

    case: str
    size: int
    dmc: float
    eager: float


class Reductions(nn.Module):
    """Gives every case on every input."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(()))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """A loss that is nothing, and the results in the order of `names`."""
        return self.unused * 1.0, results(inputs)


def results(inputs: tuple[Tensor, ...]) -> list[Tensor]:
    """Every case on every input."""
    return [case(x) for x in inputs for case in ROWS.values()] + [
        case(x.T) for x in inputs for case in COLUMNS.values()
    ]


def names() -> Iterator[tuple[str, int]]:
    """Case and size of each result."""
    for cases in (ROWS, COLUMNS):
        yield from ((case, size) for size in SIZES for case in cases)


def numbers(dtype: torch.dtype) -> tuple[Tensor, ...]:
    """For each size, rows of it."""
    torch.manual_seed(0)
    rows = [torch.randn(min(LINES, MOST // size), size) for size in SIZES]
    return tuple((MEAN + DEVIATION * each).to(dtype) for each in rows)


def _loss(outputs: tuple[Tensor, list[Tensor]], target: Tensor) -> tuple[Tensor, list[Tensor]]:
    return outputs[0] + target.sum(), list(outputs[1])


def prepare(directory: Path, name: str, target: str) -> None:
    """Compiles the cases in one type."""
    import dmc
    from dmc.api import compile_artifact

    sgd, example = dmc.optim.SGD(lr=0.0), (*numbers(TYPES[name]), torch.zeros(1))
    precision = "bf16" if name == "bf16" else "fp32"
    artifact = compile_artifact(
        Reductions(), loss=_loss, optimizer=sgd, example=example, precision=precision, target=target, verify=False
    )
    artifact.write(directory / f"{name}.dmc")


def run(directory: Path, name: str, device: str) -> list[Line]:
    """One step of a file, and eager, beside float64."""
    from dmc.runtime import load

    inputs = numbers(TYPES[name])
    step = load(directory / f"{name}.dmc", device=None if device == "cpu" else device)
    made = [_tensor(each) for each in step(*inputs, torch.zeros(1))[1]]
    step.close()
    there = tuple(each.to(device) for each in inputs)
    eager, exact = results(there), results(tuple(each.double() for each in there))
    lines = zip(names(), made, eager, exact, strict=True)
    return [Line(*key, _error(own, right), _error(of_eager, right)) for key, own, of_eager, right in lines]


def _tensor(value: object) -> Tensor:
    """An array as a tensor; bfloat16 via f32, since numpy lacks it."""
    array = np.array(value)
    return torch.as_tensor(array.astype(np.float32) if array.dtype == ml_dtypes.bfloat16 else array)


def _error(actual: Tensor, exact: Tensor) -> float:
    right = exact.double().cpu()
    size = float(right.norm())
    return float((actual.double().cpu() - right).norm()) / (size or 1.0)


def table(lines: list[Line]) -> str:
    """For each case, the errors at each size, dmc's before eager's."""
    head = f"| | {' | '.join(f'{size:,}' for size in SIZES)} |\n|{'---|' * (len(SIZES) + 1)}"
    rows = [head]
    for case in (*ROWS, *COLUMNS):
        cells = [f"{each.dmc:.1e}, {each.eager:.1e}" for each in lines if each.case == case]
        rows.append(f"| {case} | {' | '.join(cells)} |")
    return "\n".join(rows)


def ratio(lines: list[Line]) -> float:
    """The largest factor between dmc's error and eager's, beyond one rounding of the result."""
    least = torch.finfo(torch.float32).eps / 2
    return max(each.dmc / max(each.eager, least) if math.isfinite(each.eager) else 0.0 for each in lines)


def main() -> None:
    """Prepares, or runs and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("prepare", "run"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--types", nargs="+", choices=tuple(TYPES), default=tuple(TYPES))
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    if given.mode == "prepare":
        for name in given.types:
            prepare(given.directory, name, given.target)
        return
    found = {name: run(given.directory, name, given.device) for name in given.types}
    for name, lines in found.items():
        print(f"{name}: at most {ratio(lines):.2f} times eager's error\n{table(lines)}", flush=True)
    record = {name: [asdict(each) for each in lines] for name, lines in found.items()}
    device = torch.cuda.get_device_name() if given.device == "cuda" else "cpu"
    write_record(given.out or RESULTS / f"accuracy_{given.device}.json", {"device": device, "results": record})


if __name__ == "__main__":
    main()
