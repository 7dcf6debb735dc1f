"""A plan that waits as its step is written: the simulator finds what the model of one rank finds."""

from __future__ import annotations

import pytest

from bench.planned_as_written import planned_as_written
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.tasks.costs import TaskCosts
from dmc.analysis.tasks.reader import read_tasks
from dmc.analysis.tasks.timeline import timeline
from dmc.machine import machine
from dmc.passes.base import parse_pipeline, run_passes
from dmc.proof import verify
from dmc.simulator import simulate

MACHINE = machine("h200x2")
# A gradient is reduced while nothing else runs, although the kernel of %b does not need it.
STEP = """
"dm.mesh"() {sym_name = "mesh", axes = ["dp"], sizes = array<i64: 2>, device = #dm.device<"cpu">,
  links = [#dm.link<"memory">]} : () -> ()
func.func private @one(%x: tensor<64xf32>) -> tensor<64xf32> attributes {dm.kind = "other"} {
  %y = arith.addf %x, %x : tensor<64xf32>
  return %y : tensor<64xf32>
}
func.func private @two(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> attributes {dm.kind = "other"} {
  %z = arith.addf %x, %y : tensor<64xf32>
  return %z : tensor<64xf32>
}
func.func @step(%w: tensor<64xf32> {dm.name = "w", dm.role = "frozen"}) -> (tensor<64xf32> {dm.name = "z"}) {
  %g = "dm.kernel"(%w) {body = @one, flops = 1000000000 : i64, bytes = 512 : i64} : (tensor<64xf32>) -> tensor<64xf32>
  %r = "dm.all_reduce"(%g) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["dp"]>}
    : (tensor<64xf32>) -> tensor<64xf32>
  %b = "dm.kernel"(%w) {body = @one, flops = 1000000000 : i64, bytes = 512 : i64} : (tensor<64xf32>) -> tensor<64xf32>
  %z = "dm.kernel"(%r, %b) {body = @two, flops = 1000000000 : i64, bytes = 768 : i64}
    : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %z : tensor<64xf32>
}
"""


@pytest.mark.usefixtures("context")
def test_nothing_overlaps_that_is_waited_for_at_once() -> None:
    module, free = ir.Module.parse(STEP), ir.Module.parse(STEP)
    for each in (module, free):
        run_passes(each, parse_pipeline("dm-copy-ports,dm-async,dm-assign-queues"))
    graph = read_tasks(module, TaskCosts.of(module, MACHINE))
    expected = timeline(graph, graph.order).total
    assert expected == pytest.approx(sum(task.ns for task in graph.tasks))
    job = planned_as_written(module)
    verify(job)
    assert simulate(job, MACHINE).step_ns == pytest.approx(expected)
    run_passes(free, parse_pipeline("dm-plan-memory,dm-lower-to-plan,dm-place-events"))
    assert simulate(job_of(free), MACHINE).step_ns < 0.97 * expected, "dmc's own plan lets it overlap"
