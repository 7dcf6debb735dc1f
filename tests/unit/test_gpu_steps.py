"""When two processors train alike: what benches of a GPU make of the difference of two changes, and of several runs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bench.gpu_steps import Change
from bench.merge import merged


def test_a_change_is_judged_by_the_tolerance_unless_rounding_alone_makes_it() -> None:
    assert Change(error=0.1, noise=0.01).agrees(0.2)
    assert not Change(error=0.3, noise=0.1).agrees(0.2)
    # A key's bias of BERT in bf16, as an H100 changed it.
    assert Change(error=1.19, noise=1.15).agrees(0.2)
    assert not Change(error=10.0, noise=1.15).agrees(0.2)
    assert not Change(error=math.nan, noise=0.01).agrees(0.2) and not Change(error=math.nan, noise=1.0).agrees(0.2)
    assert not Change(error=math.inf, noise=0.0).agrees(0.2)


def test_a_later_result_takes_the_place_of_an_earlier_one() -> None:
    def run(date: str, device: str, *results: dict[str, Any]) -> dict[str, Any]:
        return {"date": date, "command": "run", "versions": {}, "device": device, "results": list(results)}

    first = run("1", "H100", {"model": "gpt2", "ms": 1}, {"model": "bert", "ms": 2})
    both = merged([first, run("2", "H100", {"model": "gpt2", "ms": 3}, {"model": "t5", "ms": 4})])
    assert (both["date"], both["device"]) == ("2", "H100")
    assert [(each["model"], each["ms"]) for each in both["results"]] == [("gpt2", 3), ("bert", 2), ("t5", 4)]
    kinds = [{"group": group, "type": kind} for group in ("sums", "products") for kind in ("f32", "bf16")]
    assert len(merged([run("1", "H100", *kinds), run("2", "H100", *kinds)])["results"]) == 4
    with pytest.raises(SystemExit, match="different devices"):
        merged([first, run("2", "H200")])
