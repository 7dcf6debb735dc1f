"""NaN, infinities, signed zeros and subnormal numbers through every operator: the numbers, and one model of many cases.

Used by tests, and on a GPU by `bench/gpu_nonfinite.py`: needs torch alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tests.nonfinite_cases import ELEMENTWISE, INF, NAN, REDUCTIONS, Case

# The last two are subnormal in f32 and bf16.
SPECIAL = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 7.0, 1e30, -1e30, 2.0**-20, 2.0**-130, -(2.0**-133))
PLAIN = (0.5, -1.0, 2.0, -0.25, 3.0, 1.5, -3.0, 0.75, -2.0)
PAIRS = ((NAN, INF), (INF, NAN), (NAN, -INF), (-INF, NAN), (INF, -INF), (INF, INF), (-INF, -INF))
GROUPS: Mapping[str, Mapping[str, Case]] = {"elementwise": ELEMENTWISE, "reductions": REDUCTIONS}


def numbers(group: str, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The two operands of the cases of a group."""
    return _pairs(dtype) if group == "elementwise" else _rows(dtype)


def _pairs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Every pair of special numbers, as two tensors [225]."""
    special = torch.tensor(SPECIAL, dtype=dtype)
    return special.repeat_interleave(len(SPECIAL)), special.repeat(len(SPECIAL))


def _rows(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Two tensors [20, 9]: ordinary rows, rows with special numbers at one or two places, and rows of one number."""
    found = [PLAIN]
    found += [_with(value, place) for value in (NAN, INF, -INF) for place in (0, 4, 8)]
    found += [_with(first, 2, _with(second, 6)) for first, second in PAIRS]
    found += [(value,) * len(PLAIN) for value in (NAN, INF, -INF)]
    x = torch.tensor(found, dtype=dtype)
    return x, x.flip(0)


def _with(value: float, place: int, row: tuple[float, ...] = PLAIN) -> tuple[float, ...]:
    return (*row[:place], value, *row[place + 1 :])


class Sweep(nn.Module):
    """Runs `cases` on (x + p, y + q), where each case has minus zeros of its own for p and q: they change nothing."""

    def __init__(self, cases: Mapping[str, Case], shape: torch.Size, dtype: torch.dtype) -> None:
        super().__init__()
        self.cases = dict(cases)
        self.p = nn.Parameter(torch.full([len(cases), *shape], -0.0, dtype=dtype))
        self.q = nn.Parameter(torch.full([len(cases), *shape], -0.0, dtype=dtype))

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The result of each case by name."""
        parts = zip(self.cases.items(), self.p.unbind(), self.q.unbind(), strict=True)
        return {name: case(x + p, y + q) for (name, case), p, q in parts}


def loss(outputs: Mapping[str, Tensor], scale: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """A weighted sum of all results, so that each gets a finite gradient of its own, and the results themselves."""
    total = scale.sum()
    for value in outputs.values():
        if value.requires_grad:
            weights = (torch.arange(value.numel()) % 5 + 1.0).reshape(value.shape)
            total = total + (value.float() * weights).sum()
    return total, {name: value.detach() for name, value in outputs.items()}


@dataclass(frozen=True)
class Outcome:
    """What a sweep gives: the result of each case by name, and the gradients of p and q, a row for each case."""

    results: Mapping[str, Tensor]
    gradients: tuple[Tensor, Tensor]


def eager(cases: Mapping[str, Case], x: Tensor, y: Tensor) -> Outcome:
    """The reference, without oneDNN, whose GELU of infinity is NaN."""
    with torch.device(x.device), torch.backends.mkldnn.flags(enabled=False):
        model = Sweep(cases, x.shape, x.dtype)
        total, results = loss(model(x, y), torch.zeros(1))
        total.backward()
    gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in (model.p, model.q)]
    return Outcome(results, (gradients[0], gradients[1]))


def differences(names: Iterable[str], expected: Outcome, actual: Outcome, tolerance: float) -> list[str]:
    """What is not the same, NaN for NaN and infinity for infinity; numbers agree to a part `tolerance`."""
    found: list[str] = []
    for index, name in enumerate(names):
        pairs = {"result": (expected.results[name], actual.results[name])}
        both = zip("pq", expected.gradients, actual.gradients, strict=True)
        pairs |= {f"gradient of {each}": (left[index], right[index]) for each, left, right in both}
        found += [f"{name}, {what}: {said}" for what, pair in pairs.items() if (said := _difference(*pair, tolerance))]
    return found


def _difference(expected: Tensor, actual: Tensor, tolerance: float) -> str:
    left, right = expected.detach().double().cpu(), actual.detach().double().cpu()
    if left.shape != right.shape:
        return f"shape {list(right.shape)}, eager {list(left.shape)}"
    wrong = ~torch.isclose(right, left, rtol=tolerance, atol=tolerance / 100, equal_nan=True)
    if not wrong.any():
        return ""
    places = wrong.nonzero()[:3].tolist()
    shown = ", ".join(f"{right[tuple(place)]:.6g} at {place}, eager {left[tuple(place)]:.6g}" for place in places)
    return f"{int(wrong.sum())} of {wrong.numel()} elements: {shown}"
