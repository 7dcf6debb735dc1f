"""The candidates for convolutions whose tiles the copy engine transfers: tiles that end with a pixel or a tap."""

from __future__ import annotations

from typing import Any

from dmc.kernels.generated.corners import Corners, is_convolution
from dmc.kernels.generated.launch import power_of_two
from dmc.kernels.generated.products import Product
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.recipe import Buffer

_PROCESSORS = 132
_LEAST, _MOST_INNER = 16, 64
# Each part of a split sum has at least so many steps.
_LEAST_STEPS = 8
# With more tile elements per thread, the epilogue handles the tile in halves.
_MOST_AT_ONCE = 64 * 32
# Rows, columns, warps and stages.
_WIDE = ((128, 128, 4, 3), (128, 256, 8, 3), (128, 128, 8, 4), (256, 128, 8, 3), (128, 64, 4, 4), (64, 128, 4, 4))
_SMALL = ((128, 64, 4, 4), (64, 128, 4, 4), (64, 64, 4, 4))
_DEEP = ((128, 128, 4, 3), (128, 256, 8, 3), (256, 128, 8, 3), *_SMALL)


def convolution_candidates(product: Product, memory: dict[Any, Buffer]) -> tuple[Candidate, ...]:
    """The ways to compute a convolution with copied tiles; none if its factors are not fit for that."""
    if product.batches or not is_convolution(product):
        return ()
    tiles = -(-product.size("rows") // 128) * -(-product.size("columns") // 128)
    is_deep = tiles * 2 <= _PROCESSORS and product.size("depth") >= 2 * _MOST_INNER * _LEAST_STEPS
    chosen = _DEEP if is_deep else _WIDE if tiles >= _PROCESSORS else (*_SMALL, _WIDE[0])
    inner = _fitting(product, "depth", _MOST_INNER)
    found: dict[Candidate, None] = {}
    for rows, columns, warps, stages in chosen:
        sizes = _fitting(product, "rows", rows), _fitting(product, "columns", columns)
        if min(*sizes, inner) >= _LEAST:
            parts = _parts(product, *sizes, inner, warps) if is_deep else (1,)
            found.update(dict.fromkeys(_copied(*sizes, inner, warps, stages, each) for each in parts))
    sizes = {(each["rows"], each["columns"]) for each in found}
    fit = {each for each in sizes if Corners.of(product, memory, *each, inner) is not None}
    return tuple(each for each in found if (each["rows"], each["columns"]) in fit)


def _fitting(product: Product, kind: str, tile: int) -> int:
    """The largest size of tiles up to `tile` that ends with the innermost of several loops."""
    *outer, last = (product.reduction.loops.sizes[dim] for dim in getattr(product, kind))
    if outer or kind == "depth":
        return min(tile, last & -last)
    return max(_LEAST, min(tile, power_of_two(last)))


def _parts(product: Product, rows: int, columns: int, inner: int, warps: int) -> tuple[int, ...]:
    """Into how many parts the depth is split: one or two for each processor, which holds two programs of four warps."""
    tiles = -(-product.size("rows") // rows) * -(-product.size("columns") // columns)
    most = product.size("depth") // (inner * _LEAST_STEPS)
    return tuple(max(1, min(most, _PROCESSORS * waves // tiles)) for waves in ((2, 1) if warps == 4 else (1, 2)))


def _copied(rows: int, columns: int, inner: int, warps: int, stages: int, splits: int) -> Candidate:
    pieces = 2 if rows * columns > _MOST_AT_ONCE * warps else 1
    tiles = {"rows": rows, "columns": columns, "inner": inner, "splits": splits, "pieces": pieces}
    return candidate(warps, stages, **tiles, copied=1, resident=0)
