"""dm-schedule on a small GPT-2 under plans: the same bits and the same meaning, in less time."""

from __future__ import annotations

from typing import Any

import pytest

import dmc
from dmc import dialect, plans
from dmc._mlir import ir
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.footprint import footprint
from dmc.analysis.tasks.graph import TaskGraph
from dmc.analysis.tasks.reader import read_tasks
from dmc.analysis.tasks.timeline import timeline
from dmc.interpreter import spmd
from dmc.machine import machine
from dmc.mesh import Mesh
from dmc.passes.base import parse_pipeline, run_passes
from tests.meanings import said
from tests.placed_gpt2 import placed_gpt2

MACHINE = "h200x4"
PLANS = {
    "dp2": dmc.plan(Mesh(dp=2)).data_parallel("dp"),
    "zero3": dmc.plan(Mesh(dp=2)).data_parallel("dp", zero=3),
    "zero2_tp2": dmc.plan(Mesh(dp=2, tp=2)).data_parallel("dp", zero=2).use(plans.megatron_gpt2("tp")),
}
BEFORE = (
    "dm-inline-composites,canonicalize,cse,dm-flatten-collectives,dm-form-kernels,dm-copy-ports,dm-async,"
    "dm-bucket{bytes=65536},dm-assign-queues"
)


def _graph(module: ir.Module) -> TaskGraph:
    return read_tasks(module, TaskCosts.of(module, machine(MACHINE)))


@pytest.mark.parametrize("name", PLANS)
def test_a_small_gpt2(context: Any, name: str) -> None:
    module, arguments = placed_gpt2(PLANS[name], context)
    run_passes(module, parse_pipeline(BEFORE))
    before, meant, expected = _graph(module), said(module), spmd.run(module, "step", arguments)
    run_passes(module, parse_pipeline(f"dm-schedule{{machine={MACHINE}}}"))
    dialect.verify_symbols(module)
    assert said(module).differences(meant) == []
    for own, wanted in zip(spmd.run(module, "step", arguments).results, expected.results, strict=True):
        assert [each.tobytes() for each in own] == [each.tobytes() for each in wanted]
    after = _graph(module)
    was, now = timeline(before, before.order), timeline(after, after.order)
    assert now.exposed < was.exposed
    assert now.total < was.total
    assert footprint(after, after.order).peak <= footprint(before, before.order).peak
