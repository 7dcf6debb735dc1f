"""Composites as problems: what a kernel's body asks of an implementation, and where in its operands and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dmc._mlir import ir
from dmc.analysis.kernels.problems import PlacedProblem, problem_of, problem_of_body
from dmc.dialect import CompositeOp
from dmc.kernels.problem import TensorType
from dmc.program.code import Place
from dmc.step_function import functions, symbol
from dmc.walk import walk

Q, LEVEL, WIDE = "tensor<2x2x8x16xf32>", "tensor<2x2x8x1xf32>", "tensor<2x8x96xf32>"
ATTENTION = f"""
  %y, %level = "dm.composite"(%q, %k, %v, %seed, %seed) {{kind = "attention", decomposition = @attention,
      parameters = {{p = 0.1 : f64, scale = 0.25 : f64, causal = true}}}}
      : ({Q}, {Q}, {Q}, tensor<i64>, tensor<i64>) -> ({Q}, {LEVEL})
"""
MEANING = f"""
func.func private @attention(%q: {Q}, %k: {Q}, %v: {Q}, %seed: tensor<i64>, %draw: tensor<i64>) -> ({Q}, {LEVEL}) {{
  %0 = tensor.empty() : {LEVEL}
  return %q, %0 : {Q}, {LEVEL}
}}
"""


def part(name: str, first: int) -> str:
    """Heads of 16 columns from `first` on, out of a projection of 96."""
    return f"""
  %{name}_slice = tensor.extract_slice %w[0, 0, {first}] [2, 8, 32] [1, 1, 1] : {WIDE} to tensor<2x8x32xf32>
  %{name}_heads = tensor.expand_shape %{name}_slice [[0], [1], [2, 3]] output_shape [2, 8, 2, 16]
      : tensor<2x8x32xf32> into tensor<2x8x2x16xf32>
  %{name} = linalg.transpose ins(%{name}_heads : tensor<2x8x2x16xf32>) outs(%e : {Q}) permutation = [0, 2, 1, 3]
"""


def body(arguments: str, text: str, returned: Sequence[tuple[str, str]]) -> PlacedProblem | None:
    """The problem of a body that returns these values, each with its type."""
    names, types = (", ".join(each) for each in zip(*returned, strict=True))
    module = ir.Module.parse(
        f"func.func private @body({arguments}) -> ({types}) {{\n  %e = tensor.empty() : {Q}\n{text}\n"
        f"  return {names} : {types}\n}}{MEANING}"
    )
    (found,) = [each for each in functions(module) if symbol(each) == "body"]
    return problem_of_body(found)


def test_views_become_strides_and_places(context: Any) -> None:
    text = part("q", 0) + part("k", 32) + part("v", 64) + ATTENTION
    turned = f"""
  %f = tensor.empty() : tensor<2x8x2x16xf32>
  %t = linalg.transpose ins(%y : {Q}) outs(%f : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]"""
    returned = (("%level", LEVEL), ("%t", "tensor<2x8x2x16xf32>"))
    found = body(f"%seed: tensor<i64>, %w: {WIDE}", text + turned, returned)
    assert found is not None
    q, k, v, seed, draw = found.problem.operands
    strided = TensorType("f32", (2, 2, 8, 16), (768, 16, 96, 1))
    assert (q, k, v, seed, draw) == (strided, strided, strided, TensorType("i64", ()), TensorType("i64", ()))
    span = 4 * (768 + 16 + 7 * 96 + 16)
    assert found.operands[:3] == tuple(Place("read", 1, 4 * first, span) for first in (0, 32, 64))
    assert found.operands[3:] == (Place("read", 0, 0, 8),) * 2
    assert found.problem.results == (
        TensorType("f32", (2, 2, 8, 16), (256, 16, 32, 1)),
        TensorType("f32", (2, 2, 8, 1)),
    )
    assert found.results == (Place("write", 1, 0, 2048), Place("write", 0, 0, 128))
    assert dict(found.problem.parameters) == {"p": 0.1, "scale": 0.25, "causal": True}


DIRECT = f"%q: {Q}, %k: {Q}, %v: {Q}, %seed: tensor<i64>"
BOTH = (("%y", Q), ("%level", LEVEL))


@pytest.mark.parametrize(
    ("arguments", "text", "returned"),
    [
        # Something is computed on the way in.
        (DIRECT.replace("%q", "%x"), f"%q = arith.negf %x : {Q}" + ATTENTION, BOTH),
        # Something is computed on the way out, or given beside.
        (DIRECT, ATTENTION + f"%z = arith.negf %y : {Q}", (("%z", Q), ("%level", LEVEL))),
        (DIRECT, ATTENTION, (*BOTH, ("%q", Q))),
        # One result is wanted twice, another not at all.
        (DIRECT, ATTENTION, (*BOTH, ("%y", Q))),
        (DIRECT, ATTENTION, (("%y", Q),)),
        # Two of them.
        (DIRECT, ATTENTION + ATTENTION.replace("%y, %level", "%y1, %level1"), BOTH),
        (DIRECT, "", (("%q", Q),)),
        # No kernel takes rows whose elements lie apart.
        (
            DIRECT.replace("%q: tensor<2x2x8x16xf32>", "%x: tensor<2x2x16x8xf32>"),
            f"%q = linalg.transpose ins(%x : tensor<2x2x16x8xf32>) outs(%e : {Q}) permutation = [0, 1, 3, 2]"
            + ATTENTION,
            BOTH,
        ),
    ],
)
def test_other_bodies_have_no_problem(
    context: Any, arguments: str, text: str, returned: tuple[tuple[str, str], ...]
) -> None:
    assert body(DIRECT, ATTENTION, BOTH) is not None
    assert body(arguments, text, returned) is None


def test_a_composite_alone_is_dense(context: Any) -> None:
    text = f"func.func @step({DIRECT}) -> {Q} {{{ATTENTION}  return %y : {Q}\n}}{MEANING}"
    module = ir.Module.parse(text)
    (op,) = [op for op in walk(module.operation) if op.name == CompositeOp.OPERATION_NAME]
    found = problem_of(op.opview)
    assert str(found).startswith("attention(2x2x8x16xf32, 2x2x8x16xf32, 2x2x8x16xf32, i64, i64 -> 2x2x8x16xf32")
    assert not any(tensor.strides for tensor in (*found.operands, *found.results))


WIDE_ROWS = "tensor<16x96xf32>"
BACKWARD = f"""
  %dq, %dk, %dv, %none = "dm.composite"(%q, %q, %q, %q, %q, %level, %seed, %seed) {{kind = "attention_backward",
      decomposition = @backward, parameters = {{bias = none, p = 0.0 : f64, scale = 0.25 : f64, causal = true}}}}
      : ({Q}, {Q}, {Q}, {Q}, {Q}, {LEVEL}, tensor<i64>, tensor<i64>) -> ({Q}, {Q}, {Q}, tensor<f32>)
  %f = tensor.empty() : tensor<2x8x2x16xf32>
""" + "".join(
    f"""
  %{name}_rows = linalg.transpose ins(%{name} : {Q}) outs(%f : tensor<2x8x2x16xf32>) permutation = [0, 2, 1, 3]
  %{name}_flat = tensor.collapse_shape %{name}_rows [[0, 1], [2, 3]] : tensor<2x8x2x16xf32> into tensor<16x32xf32>
"""
    for name in ("dq", "dk", "dv")
)
BESIDE = f"""
  %wide = tensor.concat dim(1) %dq_flat, %dk_flat, %dv_flat
      : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>) -> {WIDE_ROWS}
"""


def sums(name: str, matrix: str) -> str:
    """The sums of a matrix over its rows."""
    return f"""
  %{name}_zero = arith.constant 0.0 : f32
  %{name}_empty = tensor.empty() : tensor<96xf32>
  %{name}_begin = linalg.fill ins(%{name}_zero : f32) outs(%{name}_empty : tensor<96xf32>) -> tensor<96xf32>
  %{name} = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
      iterator_types = ["reduction", "parallel"]}} ins({matrix} : {WIDE_ROWS}) outs(%{name}_begin : tensor<96xf32>) {{
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  }} -> tensor<96xf32>
"""


def test_sums_over_the_rows_of_the_gradients(context: Any) -> None:
    arguments = f"%q: {Q}, %level: {LEVEL}, %other: {WIDE_ROWS}, %seed: tensor<i64>"
    text = BACKWARD + BESIDE + sums("s", "%wide") + sums("t", "%wide") + sums("o", "%other")
    whole, one, two, other = (
        ("%wide", WIDE_ROWS),
        ("%s", "tensor<96xf32>"),
        ("%t", "tensor<96xf32>"),
        ("%o", "tensor<96xf32>"),
    )
    found = body(arguments, text, (one, whole))
    assert found is not None
    assert found.problem.results[3] == TensorType("f32", (96,))
    assert [found.problem.get(f"sums_{i}", -1) for i in range(3)] == [0, 32, 64]
    assert found.results[3] == Place("write", 0, 0, 384)
    assert [each.index for each in found.results[:3]] == [1, 1, 1]
    # Of something else, and twice.
    assert body(arguments, text, (other, whole)) is None
    assert body(arguments, text, (one, two, whole)) is None
