"""Generated kernels that pack masks into words of bits, and those that read them, in Triton's interpreter."""

from __future__ import annotations

from typing import Any

import pytest

from dmc._mlir import ir
from dmc.kernels.generated import generate
from tests.generated_regions import assert_right, regions_of, shaped
from tests.large import large

SCALED = """%y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>,
      affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%mask, $value : tensor<$rx$cxi1>, tensor<$rx$cxf32>) outs(%f : tensor<$rx$cxf32>) {
  ^bb0(%keep: i1, %in: f32, %o: f32):
    %0 = arith.select %keep, %scale, %zero : f32
    %1 = arith.mulf %0, %in : f32
    linalg.yield %1 : f32
  } -> tensor<$rx$cxf32>
"""
SUM = """%start = arith.constant dense<0.0> : tensor<$kxf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ($kept)>],
      iterator_types = [$kinds]} ins(%y : tensor<$rx$cxf32>) outs(%start : tensor<$kxf32>) {
  ^bb0(%in: f32, %o: f32):
    %0 = arith.addf %in, %o : f32
    linalg.yield %0 : f32
  } -> tensor<$kxf32>
"""
PRODUCT = """%start = arith.constant dense<0.0> : tensor<$rx$cxf32>
  %p = linalg.matmul ins(%a, %w : tensor<$rx64xbf16>, tensor<64x$cxbf16>) outs(%start : tensor<$rx$cxf32>)
      -> tensor<$rx$cxf32>
"""
X, Y = "%x: tensor<$rx$cxf32>", "return %y : tensor<$rx$cxf32>"


def reading(rows: int, columns: int, width: int, body: str, type_: str, operands: str) -> ir.Module:
    """The regions of `words.mlir.in`; `body` computes with %mask, operands, and a tensor %f to fill."""
    sizes = {"r": rows, "c": columns, "n": columns // width, "b": width}
    # Longer names first: texts mention sizes.
    return shaped("words", operands=operands, type=type_, body=body, **sizes)


def elements(rows: int, columns: int, width: int) -> ir.Module:
    """Scaled elements."""
    return reading(rows, columns, width, SCALED.replace("$value", "%x") + Y, "tensor<$rx$cxf32>", X)


def by_columns(rows: int, columns: int, width: int) -> ir.Module:
    """Sums over columns of scaled elements."""
    added = SUM.replace("$kinds", '"reduction", "parallel"').replace("$kept", "j").replace("$k", "$c")
    body = SCALED.replace("$value", "%x") + added + "return %z : tensor<$cxf32>"
    return reading(rows, columns, width, body, "tensor<$cxf32>", X)


def by_rows(rows: int, columns: int, width: int) -> ir.Module:
    """Sums over rows, and the scaled elements."""
    added = SUM.replace("$kinds", '"parallel", "reduction"').replace("$kept", "i").replace("$k", "$r")
    body = SCALED.replace("$value", "%x") + added + "return %y, %z : tensor<$rx$cxf32>, tensor<$rxf32>"
    return reading(rows, columns, width, body, "(tensor<$rx$cxf32>, tensor<$rxf32>)", X)


def product(rows: int, columns: int, width: int) -> ir.Module:
    """A product whose elements are scaled."""
    body = PRODUCT + SCALED.replace("$value", "%p") + Y
    operands = "%a: tensor<$rx64xbf16>, %w: tensor<64x$cxbf16>"
    return reading(rows, columns, width, body, "tensor<$rx$cxf32>", operands)


READERS = {"elements": elements, "rows": by_rows, "columns": by_columns}
SIZES = [(300, 96, 32), (7, 32, 32), (65, 40, 8), (33, 24, 8), (129, 2048, 32), (1, 64, 32), (200, 8, 8)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_mask_is_packed(sizes: tuple[int, int, int], context: Any) -> None:
    assert_right(elements(*sizes), "pack")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_words_are_read(reader: str, sizes: tuple[int, int, int], context: Any) -> None:
    assert_right(READERS[reader](*sizes), "read", limit=2**31)


@pytest.mark.parametrize(
    "sizes", [(70, 64, 32), (130, 256, 32), (40, 24, 8), pytest.param((4220, 1024, 32), marks=large)], ids=str
)
def test_words_are_read_behind_a_product(sizes: tuple[int, int, int], context: Any) -> None:
    assert_right(product(*sizes), "read", every=sizes[0] < 4096, limit=2**31)


def test_words_are_read_where_the_layout_of_a_product_is_kept(context: Any) -> None:
    """Two groups of warps in turn: rows and words lie as the product does."""
    module = product(4220, 1024, 32)
    generated = generate(regions_of(module)["read"])
    sources = [recipe.calls[0].source for recipe in generated.recipes]
    assert any("ping_pong.bits(" in each and "ping_pong.word_rows(like, 32)" in each for each in sources)
    assert all("bits(" in each for each in sources)


def test_a_tile_reads_each_of_its_words_once(context: Any) -> None:
    module = by_rows(300, 96, 32)
    (call,) = generate(regions_of(module)["read"]).recipes[0].calls
    # The tile has four words, a row of the mask three.
    assert "tl.load(x0_at + row * 3 + column_words, mask=row_inside & (column_words < 3)" in call.source
    assert "bits = functions.bits(x0, 32)" in call.source


def test_a_thread_packs_whole_words(context: Any) -> None:
    module = elements(300, 96, 32)
    (call,) = generate(regions_of(module)["pack"]).recipes[0].calls
    assert call.source.count("tl.store(") == 1 and "tl.sum" not in call.source
    assert call.source.count(" << ") == 32, "each bit is shifted to its place"
