"""Whether two computations of a tensor agree: what is allowed, and what never is."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from dmc.runtime.comparison.difference import Slack, difference
from dmc.runtime.comparison.tolerance import TOLERANCE
from dmc.verification.expected import is_rounding, of_a_sum
from dmc.verification.roundings import LONGEST_SUM

FP32 = TOLERANCE["fp32"]
ONES = np.ones(4, np.float32)


def test_what_is_nothing_must_be_nothing() -> None:
    strict = replace(FP32, floor=0.0)
    nothing = np.zeros(3, np.float32)
    assert difference("aux0", nothing, nothing, strict) is None
    assert difference("aux0", np.array([7.0, 0.0, 0.0], np.float32), nothing, strict) is not None


@pytest.mark.parametrize("wrong", [0.85, 0.99, 1.01])
def test_the_order_of_a_long_sum_excuses_no_wrong_gradient(wrong: float) -> None:
    start = np.zeros(4, np.float32)
    slack = of_a_sum(ONES, start, terms=10**7)
    assert difference("p", np.float32(wrong) * ONES, ONES, FP32, start, slack) is not None
    within = np.float32(1.0 + LONGEST_SUM / 2) * ONES
    assert difference("p", within, ONES, FP32, start, slack) is None


def test_narrow_types_are_compared_by_their_own_rounding() -> None:
    half, brain = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
    for dtype, near, far in ((half, 1.003, 1.02), (brain, 1.02, 1.2)):
        one = ONES.astype(dtype)
        assert difference("aux0", (near * ONES).astype(dtype), one, FP32) is None
        assert difference("aux0", (far * ONES).astype(dtype), one, FP32) is not None


def test_nan_and_infinity_stand_where_they_stand() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert difference("aux0", odd, odd.copy(), FP32) is None
    for other in ([np.inf, np.inf, -np.inf, 1.0], [np.nan, -np.inf, -np.inf, 1.0], [np.nan, np.inf, -np.inf, np.nan]):
        found = difference("aux0", np.array(other, np.float32), odd, FP32, slack=Slack(1e9, 1e9))
        assert found is not None


def test_only_a_change_as_small_as_its_noise_is_rounding() -> None:
    start, rounded = ONES, ONES + np.float32(2.0**-22)
    assert is_rounding(ONES, start, rounded) and is_rounding(rounded, start, ONES)
    assert not is_rounding(ONES + np.float32(1e-5), start, ONES + np.float32(1e-5) + np.float32(2.0**-22))
    assert not is_rounding(ONES, start, ONES), "where nothing is disturbed, nothing is rounded"
