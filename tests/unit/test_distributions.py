"""What PyTorch's operations draw of a step's bits is distributed like what they draw of PyTorch's own."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from dmc.importer.forward.random_numbers.distributions import DISTRIBUTIONS
from dmc.verification.draws import Draws

COUNT = 20_000
# Two samples of one distribution are further apart by chance in one of 10⁷ cases (Massart, 1990, for both).
FURTHEST = 2 * math.sqrt(math.log(2e7) / (2 * COUNT))
SHAPE = (100, COUNT // 100)


def _full(value: float) -> Tensor:
    return torch.full(SHAPE, value)


def _filled(method: str, *options: float) -> Callable[[], Tensor]:
    return lambda: getattr(torch.empty(SHAPE), method)(*options)


WEIGHTS = torch.tensor([1.0, 0.0, 3.0, 2.0]).expand(COUNT, 4)
CALLS: dict[str, Callable[[], Tensor]] = {
    "rand": lambda: torch.rand(SHAPE),
    "rand_like": lambda: torch.rand_like(_full(0.0)),
    "randn": lambda: torch.randn(SHAPE),
    "randn_like": lambda: torch.randn_like(_full(0.0)),
    "randint": lambda: torch.randint(5, SHAPE),
    "randint_from": lambda: torch.randint(-3, 5, SHAPE),
    "randint_like": lambda: torch.randint_like(_full(0.0), 5),
    "randint_like_from": lambda: torch.randint_like(_full(0.0), -3, 5),
    "randperm": lambda: torch.stack([torch.randperm(10)[3] for _ in range(1000)]).repeat(COUNT // 1000),
    "uniform_": _filled("uniform_", -1.0, 3.0),
    "normal_": _filled("normal_", 1.0, 3.0),
    "log_normal_": _filled("log_normal_", 1.0, 0.3),
    "exponential_": _filled("exponential_", 3.0),
    "cauchy_": _filled("cauchy_", 1.0, 3.0),
    "geometric_": _filled("geometric_", 0.3),
    "random_": _filled("random_", 7),
    "bernoulli_": _filled("bernoulli_", 0.3),
    "bernoulli": lambda: torch.bernoulli(_full(0.3)),
    "bernoulli_p": lambda: torch.bernoulli(_full(0.9), 0.3),
    "bernoulli_of": lambda: torch.empty(SHAPE).bernoulli_(_full(0.3)),
    "normal": lambda: torch.normal(_full(1.0), _full(3.0)),
    "normal_of_size": lambda: torch.normal(1.0, 3.0, SHAPE),
    "normal_about": lambda: torch.normal(_full(1.0), 3.0),
    "normal_of_width": lambda: torch.normal(1.0, _full(3.0)),
    "rrelu": lambda: functional.rrelu(_full(-1.0), 0.1, 0.7, training=True),
    "multinomial": lambda: torch.multinomial(WEIGHTS, 1),
    "multinomial_second": lambda: torch.multinomial(WEIGHTS, 2)[:, 1],
    "multinomial_again": lambda: torch.multinomial(WEIGHTS, 2, replacement=True)[:, 1],
}


def _share_below(numbers: Tensor, at: Tensor) -> Tensor:
    return torch.searchsorted(numbers.sort().values, at, right=True).double() / len(numbers)


@pytest.mark.parametrize("name", CALLS)
def test_it_is_distributed_like_pytorchs(name: str) -> None:
    call = CALLS[name]
    torch.manual_seed(0)
    expected = call().double().reshape(-1)
    with Draws(0, 0):
        actual = call().double().reshape(-1)
    everywhere = torch.cat([expected, actual])
    apart = float((_share_below(actual, everywhere) - _share_below(expected, everywhere)).abs().max())
    # Of a permutation only a thousand are drawn.
    assert apart < FURTHEST * (math.sqrt(20) if name == "randperm" else 1)


def test_every_operation_is_called() -> None:
    seen: set[object] = set()

    class Seen(Draws):
        def __torch_dispatch__(self, func: object, types: object, args: object = (), kwargs: object = None) -> object:
            seen.add(func)
            return super().__torch_dispatch__(func, types, args, kwargs)

    with Seen(0, 0):
        for call in CALLS.values():
            call()
    assert set(DISTRIBUTIONS) <= seen


LAID_OUT: list[Callable[[], Tensor]] = [
    lambda: torch.rand_like(_full(0.0).t()),
    lambda: torch.randn_like(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)),
    lambda: torch.normal(_full(0.0).t(), _full(1.0).t()),
    lambda: torch.normal(_full(0.0).bfloat16(), _full(1.0)),
    lambda: functional.rrelu(_full(1.0).t(), training=True),
    lambda: torch.bernoulli(_full(0.5).t()),
    lambda: torch.randint(5, SHAPE, dtype=torch.int16),
]


@pytest.mark.parametrize("call", [*CALLS.values(), *LAID_OUT])
def test_it_has_type_and_layout_of_pytorchs(call: Callable[[], Tensor]) -> None:
    expected = call()
    with Draws(0, 0):
        actual = call()
    assert (actual.dtype, actual.shape, actual.stride()) == (expected.dtype, expected.shape, expected.stride())


def test_a_permutation_has_every_number_once() -> None:
    with Draws(0, 0):
        assert torch.equal(torch.randperm(1000).sort().values, torch.arange(1000))
