"""What kernels cost, by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dmc import dialect
from dmc._mlir import ir
from dmc.analysis.kernels.cost import dominant, traffic, work_of
from dmc.analysis.kernels.graph import Graph, step_graph
from dmc.step_function import find_step

STEP = """
func.func @step(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %table: tensor<100x6xf32>, %rows: tensor<4xi64>)
    -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x6xf32>, tensor<4xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x6xf32>
  %few = tensor.empty() : tensor<4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x6xf32>) -> tensor<4x6xf32>
  %none = linalg.fill ins(%zero : f32) outs(%few : tensor<4xf32>) -> tensor<4xf32>
  %p = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%zeros : tensor<4x6xf32>) -> tensor<4x6xf32>
  %g = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<4xi64>) outs(%empty : tensor<4x6xf32>) {
    ^bb0(%in: i64, %out: f32):
      %i = arith.index_cast %in : i64 to index
      %j = linalg.index 1 : index
      %e = tensor.extract %table[%i, %j] : tensor<100x6xf32>
      linalg.yield %e : f32
  } -> tensor<4x6xf32>
  %s = tensor.extract_slice %g[0, 0] [2, 6] [2, 1] : tensor<4x6xf32> to tensor<2x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>],
      iterator_types = ["parallel", "reduction"]} ins(%p : tensor<4x6xf32>) outs(%none : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %q = arith.mulf %in, %in : f32
      %t = arith.addf %q, %out : f32
      linalg.yield %t : f32
  } -> tensor<4xf32>
  return %p, %g, %s, %r : tensor<4x6xf32>, tensor<4x6xf32>, tensor<2x6xf32>, tensor<4xf32>
}
"""


@pytest.fixture
def graph() -> Iterator[Graph]:
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        module = ir.Module.parse(STEP)
        yield step_graph(find_step(module))


def _number(graph: Graph, name: str, which: int = 0) -> int:
    return [i for i, op in enumerate(graph.ops) if op.name == name][which]


@pytest.mark.parametrize(
    ("name", "which", "flops", "kind"),
    [
        ("linalg.matmul", 0, 2 * 4 * 8 * 6, "matmul"),
        ("linalg.generic", 0, 0, "elementwise"),
        ("tensor.extract_slice", 0, 0, "other"),
        ("linalg.generic", 1, 2 * 4 * 6, "reduction"),
    ],
)
def test_work(graph: Graph, name: str, which: int, flops: int, kind: str) -> None:
    work = work_of(graph.ops[_number(graph, name, which)])
    assert (work.flops, work.kind) == (flops, kind)


@pytest.mark.parametrize(
    ("name", "which", "read", "written"),
    [
        ("linalg.matmul", 0, 4 * 8 * 4 + 8 * 6 * 4, 4 * 6 * 4),
        # Four of a hundred rows, and their numbers.
        ("linalg.generic", 0, 4 * 6 * 4 + 4 * 8, 4 * 6 * 4),
        ("tensor.extract_slice", 0, 2 * 6 * 4, 2 * 6 * 4),
    ],
)
def test_traffic(graph: Graph, name: str, which: int, read: int, written: int) -> None:
    number = _number(graph, name, which)
    inputs = [value for value in graph.reads[number] if graph.kind_of(value) is None or graph.made_by[value] > 4]
    assert traffic(graph, [number], inputs, graph.ops[number].results) == read + written


def test_a_product_dominates_what_has_more_iterations(graph: Graph) -> None:
    works = [
        work_of(graph.ops[_number(graph, "linalg.generic", 1)]),
        work_of(graph.ops[_number(graph, "linalg.matmul")]),
    ]
    assert dominant(works) == 1
    assert dominant(works[:1]) == 0
