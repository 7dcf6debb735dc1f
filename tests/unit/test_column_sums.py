"""Which operations are seen as sums over all rows of a matrix."""

from __future__ import annotations

from typing import Any

import pytest

from dmc._mlir import ir
from dmc.analysis.kernels.column_sums import ColumnSums

MAPS = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>"
ROW = "affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (0, j)>"
RIGHT = """
  %zero = arith.constant 0.0 : f32
  %flat = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x4x6xbf16> into tensor<8x6xbf16>
  %e = tensor.empty() : tensor<8x6xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%flat : tensor<8x6xbf16>) outs(%e : tensor<8x6xf32>) {
    ^bb0(%a: bf16, %b: f32):
      %c = arith.extf %a : bf16 to f32
      linalg.yield %c : f32
  } -> tensor<8x6xf32>
  %f = tensor.empty() : tensor<6xf32>
  %begin = linalg.fill ins(%zero : f32) outs(%f : tensor<6xf32>) -> tensor<6xf32>
  %sums = linalg.generic {indexing_maps = [MAPS], iterator_types = ["reduction", "parallel"]}
      ins(%wide : tensor<8x6xf32>) outs(%begin : tensor<6xf32>) {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      linalg.yield %c : f32
  } -> tensor<6xf32>
""".replace("MAPS", MAPS)
# Each a sum of something else, or no sum.
WRONG = {
    "other columns": {"[[0, 1], [2]]": "[[0], [1, 2]]", "8x6": "2x24", "<6x": "<24x"},
    "another beginning": {"arith.constant 0.0": "arith.constant 1.0"},
    "a maximum": {"arith.addf": "arith.maximumf"},
    "each row": {
        MAPS: MAPS.replace("-> (j)", "-> (i)"),
        '"reduction", "parallel"': '"parallel", "reduction"',
        "<6x": "<8x",
    },
    "something computed": {"arith.extf %a : bf16 to f32": "arith.constant 2.0 : f32"},
}


def parsed(text: str) -> tuple[ir.Module, ir.Value, ir.Value]:
    """A module, and in it the matrix and the sums."""
    module = ir.Module.parse(f"func.func @f(%x: tensor<2x4x6xbf16>) {{{text}  return\n}}")
    (function,) = module.body.operations
    *_, sums, _ = function.entry_block.operations
    return module, function.entry_block.arguments[0], sums.operation.results[0]


@pytest.mark.parametrize("text", [RIGHT, RIGHT.replace(MAPS, ROW).replace("<6x", "<1x6x")])
def test_sums_are_seen_through_casts_and_reshapes(context: Any, text: str) -> None:
    _module, matrix, value = parsed(text)
    found = ColumnSums.of(value)
    assert found is not None
    assert (found.matrix, found.value) == (matrix, value)
    assert [op.name for op in found.ops] == ["tensor.collapse_shape", "linalg.generic", "linalg.generic"]
    # Any of what it passes through is a matrix whose rows it adds up.
    for made in (matrix, *(op.results[0] for op in found.ops[:-1])):
        (reader,) = ColumnSums.readers(made)
        assert (reader.matrix, reader.value) == (made, value)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_such_sum(context: Any, name: str) -> None:
    text = RIGHT
    for old, new in WRONG[name].items():
        assert old in text
        text = text.replace(old, new)
    _module, matrix, value = parsed(text)
    found = ColumnSums.of(value)
    assert found is None or found.matrix != matrix
    assert list(ColumnSums.readers(matrix)) == []
