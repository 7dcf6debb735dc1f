"""What is counted in a compiled step is what eager does, whatever machine this is."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

import dmc
from dmc.analysis.amounts import Amount
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.verification import draws, estimate
from dmc.verification.estimate import Rates, amount_of
from dmc.verification.reference import eager_step
from dmc.verification.request import Request
from tests.models import build
from tests.models.case import Case, image_batch

# Those of a core with AVX-512.
RATES = Rates(flop=7e-12, element=2e-9, draw=1e-8)
FACTOR = 2.0


class Made(TorchDispatchMode):
    """Counts the elements of the results of operations, but for those of views and products."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view and func.overloadpacket not in flop_registry:
            leaves = pytree.tree_leaves(result)
            self.elements += sum(leaf.numel() for leaf in leaves if isinstance(leaf, torch.Tensor))
        return result


def _done_by_eager(request: Request, monkeypatch: pytest.MonkeyPatch) -> Amount:
    words: list[int] = []
    draw = draws.uniform_bits

    def drawn(shape: Sequence[int], seed: int, number: int, bits: int) -> Any:
        words.append(math.prod(shape))
        return draw(shape, seed, number, bits)

    monkeypatch.setattr(draws, "uniform_bits", drawn)
    with FlopCounterMode(display=False) as flops, Made() as made:
        eager_step(request, 0)
    return Amount(flops.get_total_flops(), made.elements, sum(words))


def _convolutions() -> Case:
    """Strided and plain ones, normalised and pooled."""
    first, second = nn.Conv2d(3, 8, 7, stride=2, padding=3), nn.Conv2d(8, 16, 3, padding=1)
    norms = (nn.BatchNorm2d(8), nn.BatchNorm2d(16))
    layers = (first, norms[0], nn.ReLU(), nn.MaxPool2d(3, 2, 1), second, norms[1], nn.ReLU(), nn.Flatten())
    model = nn.Sequential(*layers, nn.Dropout(0.1), nn.Linear(16 * 16 * 16, 10))
    return Case("convolutions", model.train(), nn.functional.cross_entropy, lambda seed: image_batch(seed, 8, 64, 10))


@pytest.mark.parametrize("name", ["demo_gpt", "moe", "convolutions"])
def test_a_step_takes_half_to_twice_what_is_expected(name: str, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = _convolutions() if name == "convolutions" else build(name, 0.1)
    optimizer = dmc.optim.AdamW(lr=1e-3, clip_grad_norm=1.0)
    request = Request.of(case.model, case.loss, optimizer, case.example(0), Precision.FP32, 1, 0)
    step = import_step(case.model, case.loss, optimizer, case.example(0), Precision.FP32, 1, 0, context)
    expected, done = amount_of(step.module), _done_by_eager(request, monkeypatch)
    assert expected.draws == done.draws
    assert done.flops <= expected.flops <= FACTOR * done.flops
    eager = RATES.seconds(done)
    assert eager / FACTOR <= RATES.seconds(expected) <= FACTOR * eager


def test_nothing_is_slower_than_on_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """As short work on many threads seems to be where others use the machine; threads are as many as before."""
    threads, used = torch.get_num_threads(), list[int]()

    def shortest(clock: Any, works: Any) -> list[float]:
        used.append(torch.get_num_threads())
        return [0.5, 4.0, 4.0] if clock is time.perf_counter else [1.0, 2.0, 2.0]

    monkeypatch.setattr(estimate, "_shortest", shortest)
    rates = Rates.measured()
    monkeypatch.setattr(estimate, "_shortest", lambda clock, works: [1.0, 2.0, 2.0])
    alone = Rates.measured()
    assert (rates.flop, rates.element, rates.draw) == (alone.flop / 2, alone.element, alone.draw)
    assert used == [threads, 1] and torch.get_num_threads() == threads
