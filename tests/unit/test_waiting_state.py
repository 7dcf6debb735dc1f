"""State that waits in host memory, as analyses of form scheduled see it."""

from __future__ import annotations

from typing import Any

import pytest

from dmc._mlir import ir
from dmc.analysis.labels.storages import storage_labels
from dmc.analysis.storage.storages import storages
from dmc.analysis.tasks.graph import TaskGraph
from dmc.passes.base import parse_pipeline, run_passes
from dmc.step_function import find_step
from tests.scheduled_modules import graph_of

# The new moment does not depend on the old one, which the new weight reads, with the gradient.
MODULE = """
func.func private @one(%x: T) -> T {
  return %x : T
}
func.func private @two(%x: T, %y: T) -> T {
  return %x : T
}
func.func @step(%w: T {dm.name = "w", dm.role = "parameter"},
                %m: T {dm.name = "w.m", dm.role = "optimizer", dm.space = #dm.space<"host">})
    -> (T {dm.name = "w"}, T {dm.name = "w.m"}) {
  %g = "dm.kernel"(%w) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "h.0, backward"} : (T) -> T
  %n = "dm.kernel"(%g) {body = @one, flops = 0 : i64, bytes = 8192 : i64, dm.label = "w, update"} : (T) -> T
  %v = "dm.kernel"(%g, %m) {body = @two, flops = 0 : i64, bytes = 8192 : i64, dm.label = "w, update"} : (T, T) -> T
  %new = "dm.kernel"(%w, %v) {body = @two, flops = 0 : i64, bytes = 8192 : i64, dm.label = "w, update"} : (T, T) -> T
  return %new, %n : T, T
}""".replace("T", "tensor<1024xf32>")
BYTES = 4096


@pytest.fixture
def module(context: Any) -> ir.Module:
    made = ir.Module.parse(MODULE)
    run_passes(made, parse_pipeline("dm-copy-ports,dm-async"))
    return made


def _task(graph: TaskGraph, source: str) -> int:
    """The copy from a memory space."""
    found = [
        i
        for i, each in enumerate(graph.tasks)
        if each.is_movement and f'source = #dm.space<"{source}">' in str(each.op)
    ]
    (index,) = found
    return index


def test_it_takes_device_memory_only_from_its_copy_on(module: ir.Module) -> None:
    graph = graph_of(module)
    fetch, put_back = _task(graph, "host"), _task(graph, "device")
    assert graph.resident == BYTES
    assert [graph.sizes[each] for each in graph.tasks[fetch].writes] == [BYTES]
    assert [graph.sizes[each] for each in graph.tasks[put_back].writes] == [0]


def test_its_place_is_overwritten_when_it_has_been_fetched(module: ir.Module) -> None:
    graph = graph_of(module)
    assert _task(graph, "host") in graph.tasks[_task(graph, "device")].needs


def test_its_copies_are_named_after_it(module: ir.Module) -> None:
    step = find_step(module)
    found = storages(step)
    named = [
        (each.space, name.label, name.category)
        for each, name in zip(found.all, storage_labels(step, found), strict=True)
    ]
    assert named[1:3] == [("host", "w.m", "optimizer"), ("device", "gradient of w", "gradient")]
    assert [each for each in named[3:] if "w.m" in each[1]] == [
        ("device", "new w.m", "optimizer"),
        ("device", "w.m", "optimizer"),
        ("host", "new w.m", "optimizer"),
    ]
