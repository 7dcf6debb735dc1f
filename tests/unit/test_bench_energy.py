"""The power of a GPU, from a meter that ticks."""

from __future__ import annotations

import time
from typing import Any

import pytest

from bench.gpu_energy import AHEAD, COUNTED_S, watts

TICK = 0.02


@pytest.mark.parametrize("power", [120.0, 700.0])
def test_power_is_counted_from_tick_to_tick(monkeypatch: Any, power: float) -> None:
    now, queued, most = [0.0], [0], [0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def joules() -> float:
        # A call takes a millisecond, and before the first tick the GPU does something else.
        now[0] += 1e-3
        ticks = now[0] // TICK
        return 1000.0 + (3.0 if ticks else 0.0) + max(ticks - 1, 0) * TICK * power

    def run() -> float:
        queued[0] += 1
        most[0] = max(most[0], queued[0])
        return now[0] + 5e-3

    def is_done(end: float) -> bool:
        queued[0] -= end <= now[0]
        return end <= now[0]

    assert watts(joules, run, is_done) == pytest.approx(power, rel=0.02)
    assert COUNTED_S < now[0] < COUNTED_S + 4 * TICK and most[0] == AHEAD
