"""Comparing in pieces gives the verdicts of comparing whole tensors in f64, which is written down here once more."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dmc.program.signature import StateSpec
from dmc.runtime.comparison import difference as pieces
from dmc.runtime.comparison.difference import Array, Slack, difference
from dmc.runtime.comparison.outcome import Expected
from dmc.runtime.comparison.tolerance import TOLERANCE

BOUNDS = TOLERANCE["fp32"]
TYPES = st.sampled_from([np.dtype(t) for t in (np.float32, np.float16, ml_dtypes.bfloat16)])
# Of errors, beside what is allowed; and of what is allowed beside the table.
SHARES = st.floats(0.0, 4.0)
ODD = (np.nan, np.inf, -np.inf)
QUICK = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def excess_of(a: Array, b: Array, s: Array | None, slack: Slack) -> float:
    """How far tensors are apart, in units of what is allowed: by the value, and by the change where that is right."""
    eps = float(ml_dtypes.finfo(b.dtype).eps)
    finite = np.isfinite(b)
    if ((a != b) & ~(np.isnan(a) & np.isnan(b)))[~finite].any() or not np.isfinite(a[finite]).all():
        return math.inf
    element = np.broadcast_to(slack.element, b.shape)[finite]
    right = b[finite].astype(float)
    error = a[finite].astype(float) - right
    relative = max(BOUNDS.value, 4 * eps if eps > 2.0**-23 else 0.0)
    bound = relative * np.abs(right).max(initial=0.0) + BOUNDS.floor + element
    by_value = float((np.abs(error) / bound).max(initial=0.0))
    if by_value > 1 or s is None:
        return by_value
    change = np.linalg.norm(right - s[finite].astype(float))
    rounding = eps * np.linalg.norm(right) + BOUNDS.floor * right.size**0.5
    return float(np.linalg.norm(error) / (BOUNDS.change * change + rounding + slack.norm + np.linalg.norm(element)))


@st.composite
def pairs(draw: Any, odd: bool = True) -> tuple[Array, Array, Array | None, Slack]:
    """Two tensors about as far apart as is allowed, what they were before, and what is allowed beside the table."""
    dtype, random = draw(TYPES), np.random.default_rng(draw(st.integers(0, 999)))
    shape = draw(st.sampled_from([(1,), (2,), (5, 7), (40,)]))
    b = (draw(st.sampled_from([0.0, 1e-4, 1.0])) * random.standard_normal(shape)).astype(dtype)
    size = max(BOUNDS.value, float(ml_dtypes.finfo(dtype).eps))
    a = b.astype(float) + draw(SHARES) * size * draw(st.sampled_from([1e-3, 1.0])) * random.standard_normal(shape)
    a, start = a.astype(dtype), None
    if draw(st.booleans()):
        start = (b.astype(float) + draw(st.sampled_from([0.0, 1e-3, 1.0])) * random.standard_normal(shape)).astype(
            dtype
        )
    for tensor in (b, *([a] if draw(st.booleans()) else [])):
        if odd and tensor.size > 1 and draw(st.booleans()):
            tensor.reshape(-1)[draw(st.integers(0, 1))] = draw(st.sampled_from(ODD))
    if draw(st.booleans()):
        a[~np.isfinite(b)] = b[~np.isfinite(b)]
    element: Any = draw(SHARES) * size * (random.random(shape) if draw(st.booleans()) else 1.0)
    return a, b, start, Slack(element * draw(st.sampled_from([0.0, 1.0])), draw(st.sampled_from([0.0, size])))


@QUICK
@given(pairs(), st.integers(1, 50))
def test_the_verdicts_are_those_of_whole_tensors(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[Array, Array, Array | None, Slack], piece: int
) -> None:
    a, b, start, slack = pair
    monkeypatch.setattr(pieces, "_PIECE", piece)
    excess, found = excess_of(a, b, start, slack), difference("p", a, b, BOUNDS, start, slack)
    # The sums of squares are taken in another order.
    assume(abs(excess - 1) > 1e-9)
    assert (found is None) == (excess <= 1)
    assert found is None or found.excess == pytest.approx(excess)


@QUICK
@given(pairs(odd=False), SHARES, st.integers(1, 50))
def test_what_adam_allows_is_as_if_it_were_always_asked_for(
    monkeypatch: pytest.MonkeyPatch, pair: tuple[Array, Array, Array | None, Slack], rate: float, piece: int
) -> None:
    a, b, start, _ = pair
    monkeypatch.setattr(pieces, "_PIECE", piece)
    mean = np.where(np.arange(b.size).reshape(b.shape) % 2, b, 0).astype(np.float32)
    rate *= BOUNDS.value
    wrong = BOUNDS.value * np.abs(mean).max(initial=0.0) + BOUNDS.floor
    with np.errstate(divide="ignore"):
        slack = Slack(rate * np.minimum(2.0, wrong / np.abs(mean.astype(float))))
    spec = StateSpec("p", "f32", b.shape, "parameter")
    expected = Expected({"p": b, "p.exp_avg": mean}, (spec,), {} if start is None else {"p": start}, rate, BOUNDS)
    excess = excess_of(a, b, start, slack)
    assume(abs(excess - 1) > 1e-9)
    found = expected.differences({"p": a})
    assert [each.excess for each in found] == ([] if excess <= 1 else [pytest.approx(excess)])
