"""Random steps under random placements give, on all ranks, what they give on one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc._mlir import ir
from dmc.mesh import Mesh
from dmc.passes.placed.propagate_sharding import decide
from dmc.placement.placement import Placement
from tests.examples import IN_ONE_CONTEXT
from tests.partitioned import place, run_on_all_ranks, run_on_one_rank
from tests.placements import random_placement
from tests.random_steps import random_step

MESHES = (Mesh(a=2), Mesh(a=4), Mesh(a=2, b=2), Mesh(a=1, b=2), Mesh(a=3, b=2), Mesh(a=4, b=2), Mesh(a=2, b=2, c=2))


def _compare(text: str, mesh: Mesh, shapes: Sequence[Sequence[int]], placements: Mapping[str, Placement]) -> int:
    """Compares all ranks with one; gives the bytes that were sent."""
    rng = np.random.default_rng(0)
    arguments = [rng.integers(-8, 9, shape) / 8 for shape in shapes]
    expected = run_on_one_rank(ir.Module.parse(text), arguments)
    module = ir.Module.parse(text)
    place(module, mesh, placements)
    results, sent = run_on_all_ranks(module, mesh, arguments)
    for result, whole in zip(results, expected, strict=True):
        largest = np.abs(whole).max(initial=1.0)
        # In f64 the order of sums hardly counts; a program of products may still overflow.
        scale = largest if np.isfinite(largest) else np.finfo(np.float64).max
        np.testing.assert_allclose(result, whole, rtol=1e-9, atol=1e-9 * scale, err_msg=f"{text}\n{mesh} {placements}")
    return sent


@settings(IN_ONE_CONTEXT, max_examples=200, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_steps(context: Any, random: Any) -> None:
    choose = random.randrange
    mesh = MESHES[choose(len(MESHES))]
    text, shapes = random_step(choose, 1 + choose(3), 1 + choose(8))
    placements = {f"a{i}": random_placement(choose, mesh, shape) for i, shape in enumerate(shapes)}
    _compare(text, mesh, shapes, placements)


ROWS = Placement([["a"], []])
SLICE_OF_A_SPLAT = """
func.func @step(%a0: tensor<4x4xf64> {dm.name = "a0"}) -> (tensor<2x4xf64> {dm.name = "r"}) {
  %half = arith.constant dense<0.5> : tensor<4x4xf64>
  %cut = tensor.extract_slice %half[0, 0] [2, 4] [1, 1] : tensor<4x4xf64> to tensor<2x4xf64>
  %own = tensor.extract_slice %a0[1, 0] [2, 4] [1, 1] : tensor<4x4xf64> to tensor<2x4xf64>
  %r = arith.addf %cut, %own : tensor<2x4xf64>
  return %r : tensor<2x4xf64>
}
"""


def test_a_slice_of_a_splat(context: Any) -> None:
    _compare(SLICE_OF_A_SPLAT, Mesh(a=2), [(4, 4)], {"a0": ROWS})


# What enters the loop is the largest of each rank's rows; what it carries then has no such parts.
MAXIMUM_INTO_A_LOOP = """
func.func @step(%a0: tensor<4x4xf64> {dm.name = "a0"}) -> (tensor<4xf64> {dm.name = "r"}) {
  %first = arith.constant 0 : index
  %one = arith.constant 1 : index
  %last = arith.constant 3 : index
  %low = arith.constant dense<-9.0> : tensor<4xf64>
  %max = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
      iterator_types = ["reduction", "parallel"]} ins(%a0 : tensor<4x4xf64>) outs(%low : tensor<4xf64>) {
    ^bb0(%a: f64, %m: f64):
      %l = arith.maximumf %a, %m : f64
      linalg.yield %l : f64
  } -> tensor<4xf64>
  %r = scf.for %i = %first to %last step %one iter_args(%carried = %max) -> (tensor<4xf64>) {
    %twice = arith.addf %carried, %carried : tensor<4xf64>
    scf.yield %twice : tensor<4xf64>
  }
  return %r : tensor<4xf64>
}
"""


def test_a_maximum_goes_into_a_loop(context: Any) -> None:
    sent = _compare(MAXIMUM_INTO_A_LOOP, Mesh(a=2), [(4, 4)], {"a0": ROWS})
    # 2T(n-1) for four elements: once, not in every iteration.
    assert sent == 2 * 4 * 8


# `%max` is required whole by the sum, and unchanged by the transposition.
TWO_READERS_OF_A_MAXIMUM = """
func.func @step(%a0: tensor<4x4x2xf64> {dm.name = "a0"})
    -> (tensor<4x2xf64> {dm.name = "r"}, tensor<2x4xf64> {dm.name = "s"}) {
  %low = arith.constant dense<-9.0> : tensor<4x2xf64>
  %max = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (j, k)>],
      iterator_types = ["reduction", "parallel", "parallel"]} ins(%a0 : tensor<4x4x2xf64>)
      outs(%low : tensor<4x2xf64>) {
    ^bb0(%a: f64, %m: f64):
      %l = arith.maximumf %a, %m : f64
      linalg.yield %l : f64
  } -> tensor<4x2xf64>
  %r = arith.addf %max, %max : tensor<4x2xf64>
  %e = tensor.empty() : tensor<2x4xf64>
  %s = linalg.transpose ins(%max : tensor<4x2xf64>) outs(%e : tensor<2x4xf64>) permutation = [1, 0]
  return %r, %s : tensor<4x2xf64>, tensor<2x4xf64>
}
"""


def test_a_maximum_is_read_as_a_whole_and_in_parts(context: Any) -> None:
    for placement in (Placement([["a"], [], []]), Placement([["a"], ["b"], []]), Placement([["a", "b"], [], []])):
        _compare(TWO_READERS_OF_A_MAXIMUM, Mesh(a=2, b=2), [(4, 4, 2)], {"a0": placement})


UNSIGNED_MAXIMUM = """
func.func @step(%a0: tensor<4x4xi64> {dm.name = "a0"}) -> (tensor<4xi64> {dm.name = "r"}) {
  %zero = arith.constant dense<0> : tensor<4xi64>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>],
      iterator_types = ["reduction", "parallel"]} ins(%a0 : tensor<4x4xi64>) outs(%zero : tensor<4xi64>) {
    ^bb0(%a: i64, %m: i64):
      %l = arith.maxui %a, %m : i64
      linalg.yield %l : i64
  } -> tensor<4xi64>
  return %r : tensor<4xi64>
}
"""


def test_an_unsigned_maximum_is_not_taken_in_parts(context: Any) -> None:
    """Ranks combine maxima as signed numbers."""
    module = ir.Module.parse(UNSIGNED_MAXIMUM)
    place(module, Mesh(a=2), {"a0": ROWS})
    (decision,) = decide(module)
    assert not any(decision.choice.split.axes)
