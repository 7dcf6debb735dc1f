"""The distributions of random numbers: moments and quantiles of a hundred thousand of each."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dmc.importer.forward.random_numbers.streams import Stream

COUNT = 100_000
# The distance of empirical from true distribution is exceeded by chance in one of 10⁶ cases (Massart, 1990).
FURTHEST = math.sqrt(math.log(2e6) / (2 * COUNT))


def _stream(draw: int = 0, seed: int = 0) -> Stream:
    return Stream(torch.tensor(seed), torch.tensor(draw))


def _furthest(numbers: Tensor, cumulative: Tensor) -> float:
    """How far the distribution of `numbers`, sorted, is from the true one at them (Kolmogorov and Smirnov)."""
    return float((cumulative - (torch.arange(COUNT) + 0.5) / COUNT).abs().max()) if len(numbers) == COUNT else 1.0


def _sorted(numbers: Tensor) -> Tensor:
    return numbers.double().reshape(-1).sort().values


def test_continuous_distributions() -> None:
    shape, stream = [100, COUNT // 100], _stream()
    uniform, inside = _sorted(stream.uniform(shape, torch.float32)), _sorted(stream.inside(shape))
    normal, exponential = _sorted(stream.normal(shape, torch.float32)), _sorted(stream.exponential(shape, 2.0))
    assert _furthest(uniform, uniform) < FURTHEST
    assert _furthest(inside, inside) < FURTHEST
    assert _furthest(normal, torch.special.ndtr(normal)) < FURTHEST
    assert _furthest(exponential, 1 - (-2.0 * exponential).exp()) < FURTHEST
    assert float(uniform[0]) >= 0.0
    assert float(inside[0]) > 0.0
    assert float(exponential[0]) > 0.0
    assert max(float(uniform[-1]), float(inside[-1])) < 1.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_numbers_are_below_one_and_use_every_digit(dtype: torch.dtype) -> None:
    numbers = _stream().uniform([COUNT], dtype)
    assert numbers.dtype == dtype
    assert float(numbers.max()) < 1.0
    assert len(numbers.unique()) > 0.95 * 2 ** (1 - round(math.log2(torch.finfo(dtype).eps)))


def test_integers_and_trials() -> None:
    counts = torch.bincount(_stream().integers([COUNT], -3, 4) + 3, minlength=7).double()
    assert len(counts) == 7
    # A sum of seven squares of normals is above 45 by chance in one of 10⁷ cases.
    assert float(((counts - COUNT / 7) ** 2 / (COUNT / 7)).sum()) < 45.0
    trials = _stream().trials([COUNT], 0.25)
    assert float(trials.min()) == 1.0
    assert float((trials == 1).double().mean()) == pytest.approx(0.25, abs=FURTHEST)
    assert float(trials.double().mean()) == pytest.approx(4.0, abs=6 * math.sqrt(12 / COUNT))


def test_draws_and_seeds_are_independent() -> None:
    numbers = [_stream(draw, seed).normal([COUNT], torch.float32) for draw, seed in ((0, 0), (1, 0), (0, 1))]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert abs(float((numbers[first] * numbers[second]).mean())) < 6 / math.sqrt(COUNT)
    ahead, behind = numbers[0][1:], numbers[0][:-1]
    assert abs(float((ahead * behind).mean())) < 6 / math.sqrt(COUNT)
