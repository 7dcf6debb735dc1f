"""Loading `dm`, and what verification of it costs and leaves."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from dmc import dialect as dm
from dmc._mlir import ir, passmanager
from dmc.dialect import runs


def test_load_is_idempotent() -> None:
    context = ir.Context()
    dm.load(context)
    dm.load(context)
    assert context.is_registered_operation("dm.copy")
    with context:
        assert isinstance(ir.Attribute.parse('#dm.space<"host">'), dm.SpaceAttr)


def test_load_serves_every_context() -> None:
    contexts = [ir.Context() for _ in range(3)]
    for context in contexts:
        dm.load(context)
    for context in contexts:
        with context:
            group = ir.Attribute.parse('#dm.group<@mesh, ["dp"]>')
        assert isinstance(group, dm.GroupAttr)
        assert dm.group_axes(group) == ("dp",)


def test_load_keeps_verifiers_on_one_thread() -> None:
    context = ir.Context()
    context.enable_multithreading(True)
    dm.load(context)
    assert context.get_num_threads() == 1


MIXED = """
func.func @f(%x: tensor<8xf32>, %n: tensor<i64>, %y: tensor<4xf32>) {
  %r:3 = "dm.kernel"(%x, %n, %y) {body = @g}
      : (tensor<8xf32>, tensor<i64>, tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<i64>)
  return
}"""


def test_segment_sizes_are_never_seen(context: Any) -> None:
    module = ir.Module.parse(MIXED)
    module.operation.verify()
    passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
    assert "SegmentSizes" not in str(module)


def test_segment_sizes_that_were_left_go_with_the_next_verification(context: Any) -> None:
    module = ir.Module.parse(MIXED)
    kernel = module.body.operations[0].regions[0].blocks[0].operations[0]
    # As if verification had ended between `runs.cut` and `runs.join`.
    runs.cut(kernel, ("operand", "result"))
    assert {"operandSegmentSizes", "resultSegmentSizes"} <= set(kernel.attributes)
    module.operation.verify()
    assert set(kernel.attributes) == {"body"}


def test_the_bindings_find_the_classes_at_once(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            sought.append(name)

    ir.Module.parse(MIXED)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    ir.Module.parse(MIXED)
    assert sought == []


def test_ten_thousand_ops_verify_in_about_a_second(context: Any) -> None:
    line = '%{i} = "dm.all_reduce"(%x) {reduction = #dm.reduction<"sum">, accumulate = f32, '
    line += 'group = #dm.group<@mesh, ["dp"]>} : (tensor<8xf32>) -> tensor<8xf32>'
    body = "\n".join(line.replace("{i}", str(i)) for i in range(10_000))
    module = ir.Module.parse(f"func.func @f(%x: tensor<8xf32>) {{\n{body}\n return\n}}")
    start = time.process_time()
    module.operation.verify()
    # 0.25 s on an idle core; the margin is for a busy machine.
    assert time.process_time() - start < 2.0
