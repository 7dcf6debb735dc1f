"""The interpreter that other tests trust: known answers, and the bytes of each collective."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dmc._mlir import ir
from dmc.errors import DmcError
from dmc.interpreter import spmd

PRELUDE = """
"dm.mesh"() {sym_name = "mesh", axes = ["x", "y"], sizes = array<i64: 2, 2>, device = #dm.device<"cpu">,
             links = [#dm.link<"memory">, #dm.link<"memory">]} : () -> ()
"""
SUM = 'reduction = #dm.reduction<"sum">, accumulate = f32'
# Rank r holds [10r, 10r + 1]. Each case: op, attributes, group, size of the result, what the ranks get, bytes.
CASES = {
    "gather": ("all_gather", "dim = 0 : i64", "y", 4, [[0, 1, 10, 11]] * 2 + [[20, 21, 30, 31]] * 2, 4 * 8),
    "gather_over_the_major": ("all_gather", "dim = 0 : i64", "x", 4, [[0, 1, 20, 21], [10, 11, 30, 31]] * 2, 4 * 8),
    "scatter": ("reduce_scatter", f"dim = 0 : i64, {SUM}", "y", 1, [[10], [12], [50], [52]], 4 * 4),
    "reduce": ("all_reduce", SUM, "x", 2, [[20, 22], [40, 42]] * 2, 2 * 4 * 4),
    "exchange": (
        "all_to_all",
        "split_dim = 0 : i64, concat_dim = 0 : i64",
        "y",
        2,
        [[0, 10], [1, 11], [20, 30], [21, 31]],
        4 * 4,
    ),
    "broadcast": ("broadcast", "root = 1 : i64", "y", 2, [[10, 11]] * 2 + [[30, 31]] * 2, 2 * 8),
    "permute": (
        "permute",
        "source_target_pairs = dense<[[1, 0]]> : tensor<1x2xi64>",
        "y",
        2,
        [[10, 11], [0, 0], [30, 31], [0, 0]],
        2 * 8,
    ),
}


def _module(op: str, attributes: str, axis: str, size: int) -> ir.Module:
    return ir.Module.parse(
        f'{PRELUDE}func.func @f(%x: tensor<2xf32>) -> tensor<{size}xf32> {{\n  %y = "dm.{op}"(%x) {{{attributes}, '
        f'group = #dm.group<@mesh, ["{axis}"]>}} : (tensor<2xf32>) -> tensor<{size}xf32>\n'
        f"  return %y : tensor<{size}xf32>\n}}"
    )


@pytest.mark.parametrize("name", CASES)
def test_known_answers(context: Any, name: str) -> None:
    op, attributes, axis, size, expected, sent = CASES[name]
    arguments = [[np.array([10 * rank, 10 * rank + 1], np.float32)] for rank in range(4)]
    run = spmd.run(_module(op, attributes, axis, size), "f", arguments)
    assert [result.tolist() for (result,) in run.results] == expected
    assert run.bytes == sent


def test_a_slice_is_of_one_value(context: Any) -> None:
    module = _module("all_slice", "dim = 0 : i64", "y", 1)
    same = [[np.array([rank // 2, 7], np.float32)] for rank in range(4)]
    assert [result.tolist() for (result,) in spmd.run(module, "f", same).results] == [[0], [7], [1], [7]]
    differing = [[np.array([rank, 7], np.float32)] for rank in range(4)]
    with pytest.raises(DmcError, match="a value that differs between ranks"):
        spmd.run(module, "f", differing)


SCHEDULED = (
    PRELUDE
    + """
func.func private @head(%x: tensor<2xf32>) -> tensor<1xf32> {
  %y = tensor.extract_slice %x[0] [1] [1] : tensor<2xf32> to tensor<1xf32>
  return %y : tensor<1xf32>
}
func.func private @tail(%x: tensor<2xf32>) -> tensor<1xf32> {
  %y = tensor.extract_slice %x[1] [1] [1] : tensor<2xf32> to tensor<1xf32>
  return %y : tensor<1xf32>
}
func.func @f(%x: tensor<2xf32>) -> (tensor<1xf32>, tensor<2xf32>) {
  %y = "dm.kernel"(%x) {body = @head, variants = [@head, @tail], group = #dm.group<@mesh, ["y"]>}
      : (tensor<2xf32>) -> tensor<1xf32>
  %flat = "dm.pack"(%x, %y) {offsets = array<i64: 4, 0>} : (tensor<2xf32>, tensor<1xf32>) -> tensor<8xf32>
  %h, %t = "dm.start"(%flat) ({
  ^bb0(%a: tensor<8xf32>):
    %r = "dm.all_reduce"(%a) {reduction = #dm.reduction<"sum">, accumulate = f32, group = #dm.group<@mesh, ["x"]>}
        : (tensor<8xf32>) -> tensor<8xf32>
    "dm.yield"(%r) : (tensor<8xf32>) -> ()
  }) {queue = #dm.queue<"comm">, instance = 0 : i64, operandSegmentSizes = array<i32: 1, 0>}
      : (tensor<8xf32>) -> (!dm.handle<tensor<8xf32>>, !dm.token)
  %s = "dm.wait"(%h) : (!dm.handle<tensor<8xf32>>) -> tensor<8xf32>
  %u:2 = "dm.unpack"(%s) {offsets = array<i64: 0, 4>} : (tensor<8xf32>) -> (tensor<1xf32>, tensor<2xf32>)
  return %u#0, %u#1 : tensor<1xf32>, tensor<2xf32>
}
"""
)


def test_form_scheduled(context: Any) -> None:
    """Every rank runs its own variant; a bucket is reduced as a whole, and its padding is never read."""
    arguments = [[np.array([10 * rank, 10 * rank + 1], np.float32)] for rank in range(4)]
    run = spmd.run(ir.Module.parse(SCHEDULED), "f", arguments)
    assert [[each.tolist() for each in own] for own in run.results] == [[[20], [20, 22]], [[42], [40, 42]]] * 2
    assert run.bytes == 4 * 8 * 4
