"""Kernels that transpose one of several results of a loop, which IREE's own joining of the two would break."""

from __future__ import annotations

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.lowering.kernel_code import Dispatch, leaves
from dmc.lowering.kernels.kernels import compile_kernels
from dmc.target import TARGETS, Target

HEAD = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#turn = affine_map<(d0, d1) -> (d1, d0)>
func.func private @k(%p: tensor<5x7xf32>) -> (tensor<7x5xf32>, tensor<5x7xf32>) {
  %empty = tensor.empty() : tensor<5x7xf32>
  %turned = tensor.empty() : tensor<7x5xf32>"""
TAIL = """
  %t = linalg.transpose ins(%a : tensor<5x7xf32>) outs(%turned : tensor<7x5xf32>) permutation = [1, 0]
  return %t, %b : tensor<7x5xf32>, tensor<5x7xf32>
}"""


def _loop(name: str, operand: str, ops: str) -> str:
    return f"""
  {name} = linalg.generic {{indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}}
      ins({operand} : tensor<5x7xf32>) outs(%empty : tensor<5x7xf32>) {{
  ^bb0(%x: f32, %out: f32):
    %y = {ops} %x : f32
    linalg.yield %y : f32
  }} -> tensor<5x7xf32>"""


SEVERAL = """
  %a, %b = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<5x7xf32>) outs(%empty, %empty : tensor<5x7xf32>, tensor<5x7xf32>) {
  ^bb0(%x: f32, %out: f32, %out_1: f32):
    %y = math.exp %x : f32
    %z = arith.negf %x : f32
    linalg.yield %y, %z : f32, f32
  } -> (tensor<5x7xf32>, tensor<5x7xf32>)"""
BODIES = {
    "one_of_several": SEVERAL,
    "read_by_another": _loop("%a", "%p", "math.exp") + _loop("%b", "%a", "arith.negf"),
    "of_what_others_read": _loop("%c", "%p", "math.exp")
    + _loop("%a", "%c", "arith.negf")
    + _loop("%b", "%c", "math.absf"),
}


LOOP = """
  %t = linalg.generic {indexing_maps = [#id, #turn], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<5x7xf32>) outs(%turned : tensor<7x5xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<7x5xf32>
  return"""
TAILS = {"transpose": TAIL, "loop": LOOP + TAIL.partition("return")[2]}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_result_is_forgotten(body: str, target: Target, tail: str) -> None:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        library = compile_kernels(ir.Module.parse(HEAD + body + tail), ["k"], target)
    steps = [each for each in leaves(library.kernels["k"].commands) if isinstance(each, Dispatch)]
    written = {each.place.index for step in steps for each in step.bindings if each.place.role == "write"}
    assert written == {0, 1}
