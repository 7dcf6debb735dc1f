"""Loading `dm`, and what verification of it costs and leaves."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from dmc import dialect as dm
from dmc._mlir import ir, passmanager


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
func.func @f(%x: tensor<8xf32>, %n: i64, %y: tensor<4xf32>) {
  %r:3 = "dm.kernel"(%x, %n, %y) ({
  ^bb0(%a: tensor<8xf32>, %b: i64, %c: tensor<4xf32>):
    "dm.yield"(%c, %a, %b) : (tensor<4xf32>, tensor<8xf32>, i64) -> ()
  }) : (tensor<8xf32>, i64, tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>, i64)
  BAD
  return
}"""


def test_segment_sizes_are_never_seen(context: Any) -> None:
    module = ir.Module.parse(MIXED.replace("BAD", ""))
    module.operation.verify()
    passmanager.PassManager.parse("builtin.module(canonicalize)").run(module.operation)
    assert "SegmentSizes" not in str(module)


def test_segment_sizes_left_by_a_failure_go_with_the_next_verification(context: Any) -> None:
    module = ir.Module.parse(MIXED.replace("BAD", ""))
    kernel = next(op for op in module.body.operations[0].regions[0].blocks[0].operations)
    kernel.attributes["tiles"] = ir.DictAttr.get({})
    yielded = kernel.regions[0].blocks[0].operations[0]
    # The yield fails while its kernel waits to be finished.
    yielded.attributes["odd"] = ir.UnitAttr.get()
    with pytest.raises(ir.MLIRError, match=r"dm\.yield: takes no attribute 'odd'"):
        module.operation.verify()
    del yielded.attributes["odd"]
    module.operation.verify()
    assert "SegmentSizes" not in str(module)


def test_the_bindings_find_the_classes_at_once(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[str] = []

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            sought.append(name)

    text = MIXED.replace("BAD", "")
    ir.Module.parse(text)
    monkeypatch.setattr(sys, "meta_path", [Finder, *sys.meta_path])
    ir.Module.parse(text)
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
