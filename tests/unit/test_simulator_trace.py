"""The trace for Perfetto: every command once, where and when it ran, with what people ask about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.gpt_job import Shape, gpt_job
from dmc.machine import machine
from dmc.simulator import simulate
from dmc.simulator.trace import trace
from tests.hand_made_jobs import DP, Rank, job_of, round_machine


def _events(text: str, phase: str) -> list[dict[str, Any]]:
    return [event for event in json.loads(text)["traceEvents"] if event["ph"] == phase]


def test_a_command_says_what_it_is() -> None:
    ranks = [
        Rank(rank).launch(ns, "h.0.mlp").record(0).wait(0, DP).reduce(10, 7, label="gradient of w")
        for rank, ns in ((0, 5), (1, 30))
    ]
    text = trace(simulate(job_of(*ranks), round_machine()), whys={"gradient of w": 'data_parallel("dp")'})
    kernel, reduction = (event for event in _events(text, "X") if event["pid"] == 0)
    assert (kernel["name"], kernel["cat"], kernel["args"]["flops"]) == ("h.0.mlp", "other", 5)
    assert kernel["args"]["reason"] == "began with the step"
    assert kernel["args"]["asked for by"] == ""
    assert (reduction["name"], reduction["tid"]) == ("gradient of w", DP)
    assert (reduction["ts"], reduction["dur"]) == pytest.approx((0.030, 0.010))
    assert reduction["args"]["bytes"] == 10
    assert reduction["args"]["reason"] == "began after h.0.mlp on lane compute of rank 1"
    assert reduction["args"]["asked for by"] == 'data_parallel("dp")'
    assert reduction["args"]["waited for members (us)"] == pytest.approx(0.025)
    assert (kernel["args"]["critical"], reduction["args"]["critical"]) == (False, True)
    assert len(_events(text, "s")) == len(_events(text, "f")) == 2


def test_ranks_and_lanes_have_names() -> None:
    text = trace(simulate(job_of(Rank(0).launch(1), Rank(1).launch(1)), round_machine()), ranks=[1])
    names = {(event["name"], event["args"]["name"]) for event in _events(text, "M") if "name" in event["args"]}
    assert names == {("process_name", "rank 1"), *(("thread_name", name) for name in ("compute", "dp", "tp", "in"))}
    assert [event["pid"] for event in _events(text, "X")] == [1]


def test_every_command_is_there_once() -> None:
    job = gpt_job(Shape(layers=2, width=64, tokens=128), 2)
    played = simulate(job, machine("h200x2"))
    text = trace(played)
    found = {(event["pid"], event["args"]["command"]) for event in _events(text, "X")}
    assert len(found) == len(played.spans) == len(_events(text, "X"))
    counters = [event["args"] for event in _events(text, "C") if event["pid"] == 0]
    assert max(sum(live.values()) for live in counters) > 0
    assert set(counters[0]) == {"activations", "gradients", "weights"}
    assert trace(simulate(job, machine("h200x2"))) == text
