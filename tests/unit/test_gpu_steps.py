"""When two processors train alike: what benches of a GPU make of the difference of two changes."""

from __future__ import annotations

import math

from bench.gpu_steps import Change


def test_a_change_is_judged_by_the_tolerance_unless_rounding_alone_makes_it() -> None:
    assert Change(error=0.1, noise=0.01).agrees(0.2)
    assert not Change(error=0.3, noise=0.01).agrees(0.2)
    # A key's bias of BERT in bf16, as an H100 changed it.
    assert Change(error=1.19, noise=1.15).agrees(0.2)
    assert not Change(error=10.0, noise=1.15).agrees(0.2)
    assert not Change(error=math.nan, noise=0.01).agrees(0.2) and not Change(error=math.nan, noise=1.0).agrees(0.2)
    assert not Change(error=math.inf, noise=0.0).agrees(0.2)
