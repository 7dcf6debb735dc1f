"""Measures the candidates of some cases on a GPU and journals each, before and after; see `bench.gpu_kernels`.

`python -m bench.kernel_worker DIRECTORY JOURNAL SECONDS CASE…`: what stands in the journal is not done again.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.kernel_cases import CASES
from bench.kernel_code import Compiled, stored
from bench.kernel_launch import Instance, copy_rate, microseconds, product_rate
from bench.kernel_peers import peers
from dmc.kernels.implementation import Implementation, implementation_of
from dmc.kernels.problem import Problem
from dmc.kernels.references.draws import Draws

# So much memory that caches hold nothing of what was there before.
_FRESH_BYTES = 256 << 20
_SETS = 10
# Norm of the error ÷ norm of the reference, by the type of a result. Results in f32 may come from operands in bf16;
# integers below 2²⁴ are exact.
TOLERANCE = {"f32": 1e-3, "bf16": 1e-2, "f16": 2e-3, "i64": 0.0}
_PRODUCT_SHARE = 0.9


@dataclass
class Case:
    """A problem with operands and reference on the device, made when they are first needed."""

    name: str
    problem: Problem
    implementation: Implementation

    @cached_property
    def operands(self) -> tuple[Tensor, ...]:
        """Random operands."""
        return self.implementation.sample(self.problem, Draws.of(1, "cuda"))

    @cached_property
    def reference(self) -> tuple[Tensor, ...]:
        """The results in float64, kept in f32: they are compared with narrower ones."""
        return tuple(each.float() for each in self.implementation.reference(self.problem, self.operands))

    def sets(self) -> list[tuple[Tensor, ...]]:
        """Copies of the operands, so many that each is read from memory and not from a cache."""
        size = self.implementation.cost(self.problem).bytes
        count = min(_SETS, math.ceil(_FRESH_BYTES / size))
        return [self.operands, *(tuple(_copied(x) for x in self.operands) for _ in range(count - 1))]


def main() -> int:
    """Measures until the time is over; the exit code is 3 where the device is lost."""
    directory, journal, seconds, *names = sys.argv[1:]
    deadline = time.monotonic() + float(seconds)
    torch.cuda.init()
    with torch.cuda.stream(torch.cuda.Stream()):
        writer = _Journal(Path(journal))
        rates = writer.device()
        for name in names:
            if time.monotonic() > deadline:
                print(f"no time for {name}", flush=True)
                continue
            problem = CASES[name]
            _measure(Case(name, problem, implementation_of(problem)), Path(directory), writer, rates)
            torch.cuda.empty_cache()
    return 0


@dataclass
class _Journal:
    """Lines of JSON, written as things happen."""

    path: Path

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def write(self, **record: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def device(self) -> tuple[float, float]:
        """Rates of a copy and of a large product, measured once."""
        for line in self.lines():
            if line["state"] == "device":
                return line["copy_bytes_per_s"], line["product_flops_per_s"]
        rates = copy_rate(), product_rate()
        name = torch.cuda.get_device_name()
        self.write(state="device", device=name, copy_bytes_per_s=rates[0], product_flops_per_s=rates[1])
        return rates

    def attempt(self, key: dict[str, Any], work: Callable[[], dict[str, Any]]) -> None:
        """Does `work` unless it is done, and writes its result, or its error."""
        if any(line["state"] == "done" and key.items() <= line.items() for line in self.lines()):
            return
        self.write(state="begun", **key)
        try:
            found = work()
            torch.cuda.synchronize()
        except Exception as error:
            self.write(state="done", **key, error=f"{type(error).__name__}: {str(error)[:500]}")
            if _is_lost():
                sys.exit(3)
        else:
            self.write(state="done", **key, **found)
            print(json.dumps({**key, **found}), flush=True)


def _is_lost() -> bool:
    """Whether the device answers no more, as after an illegal access."""
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").item()
    except Exception:
        return True
    return False


def _measure(case: Case, directory: Path, journal: _Journal, rates: tuple[float, float]) -> None:
    cost = case.implementation.cost(case.problem)
    floor = 1e6 * max(cost.bytes / rates[0], cost.flops / (_PRODUCT_SHARE * rates[1]))
    for compiled in (each for each in stored(directory) if each.case == case.name):
        candidate = case.implementation.candidates(case.problem)[compiled.candidate]
        key = {"case": case.name, "way": "dmc", "candidate": str(candidate)}
        journal.attempt(key, lambda each=compiled: {**_candidate(case, each, directory), "floor_us": floor})
    for name, prepare in peers(case.problem).items():
        key = {"case": case.name, "way": name, "candidate": ""}
        journal.attempt(key, lambda prepare=prepare: {"us": microseconds([prepare(case.operands)])})


def _candidate(case: Case, compiled: Compiled, directory: Path) -> dict[str, Any]:
    if compiled.error:
        raise RuntimeError(compiled.error)
    problem = case.problem
    recipe = case.implementation.recipe(problem, case.implementation.candidates(problem)[compiled.candidate])
    first = Instance.of(compiled, directory, problem, recipe, case.operands)
    first.poison()
    first.launch()
    errors = [_error(made, wanted) for made, wanted in zip(first.results, case.reference, strict=True)]
    kept = [result.clone() for result in first.results]
    first.poison()
    first.launch()
    same = all(_equal(a, b) for a, b in zip(kept, first.results, strict=True))
    limits = [TOLERANCE[type.dtype] for type in problem.results]
    # A comparison with NaN is false.
    right = all(error <= limit for error, limit in zip(errors, limits, strict=True))
    worst = max(errors, key=lambda error: math.inf if math.isnan(error) else error)
    if not right or not same:
        errors_text = ", ".join(f"{error:.1e}" for error in errors[:8])
        raise ArithmeticError(f"errors {errors_text}; repeats: {same}")
    del kept
    instances = [first, *(Instance.of(compiled, directory, problem, recipe, each) for each in case.sets()[1:])]
    found: dict[str, Any] = {"us": microseconds([each.launch for each in instances]), "error": ""}
    if len(compiled.launches) > 1:
        slices = [slice(number, number + 1) for number in range(len(compiled.launches))]
        found["launch_us"] = [microseconds([partial(each.launch, part) for each in instances]) for part in slices]
    return {**found, "relative_error": worst, "same": same}


def _error(made: Tensor, wanted: Tensor) -> float:
    difference = made.float() - wanted
    return float(difference.norm() / wanted.norm().clamp(min=1e-30))


def _equal(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a, b)


def _copied(x: Tensor) -> Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x)


if __name__ == "__main__":
    sys.exit(main())
