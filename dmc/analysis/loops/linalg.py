"""The loops of linalg operations, from their indexing maps and bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dmc._mlir import ir, linalg
from dmc.analysis.loops.loops import MAX, MIN, PARALLEL, SUM, Dims, Loop, Loops
from dmc.analysis.loops.scalars import is_linear, needed_arguments, reduction_kind
from dmc.memo import once

_DIM = re.compile(r"d(\d+)")
_PRODUCTS = ("linalg.matmul", "linalg.batch_matmul", "linalg.conv_2d_nchw_fchw", "linalg.conv_2d_ngchw_gfchw")
_MOVES = ("linalg.transpose", "linalg.broadcast", "linalg.fill")
_ANY_KIND = frozenset((SUM, MAX, MIN))
_WHY = "a window, or a reduction other than sum, maximum or minimum"


def linalg_loops(op: ir.Operation) -> Loops | None:
    """The loops of a linalg operation on tensors, or None where it has no rule here.

    A loop can be split if every indexing map that uses it has it as a dimension by itself: not in overlapping windows
    (`d2 * 2 + d5`), not twice. A loop missing in the result is a reduction. Loops are numbered as in linalg.
    """
    if op.name not in ("linalg.generic", *_PRODUCTS, *_MOVES):
        return None
    types = tuple(operand.type for operand in op.operands)
    maps, sizes, plain = once(_indexing, linalg.get_indexing_maps(op), types)
    inputs = len(op.operands) - len(op.results)
    kinds = {loop: _kind(op, loop, maps[inputs:]) for loop in sizes}
    free = {f"d{loop}": loop for loop, kind in kinds.items() if kind is not None and loop in plain}
    dims = [tuple((free[place],) if place in free else () for place in each) for each in maps]
    operands: list[Dims | None] = [
        each if isinstance(type_, ir.RankedTensorType) else None for each, type_ in zip(dims, types, strict=True)
    ]
    read = _read(op)
    return Loops(
        loops=tuple(
            Loop(sizes.get(loop, 1), kinds.get(loop) or PARALLEL) for loop in range(max(sizes, default=-1) + 1)
        ),
        operands=tuple(operands),
        results=tuple(dims[inputs:]),
        unread=frozenset(i for i in range(len(dims)) if i not in read),
        carried=frozenset(i for i in read if i >= inputs),
        passes=_passes(op),
        why=_WHY,
    )


_Maps = tuple[tuple[str, ...], ...]


def _indexing(maps: ir.ArrayAttr, types: Sequence[ir.Type]) -> tuple[_Maps, dict[int, int], frozenset[int]]:
    """The dimensions of each operand as text, the iterations of each loop that is one by itself somewhere, and those of
    these loops that are so everywhere."""
    places = tuple(tuple(map(str, ir.AffineMapAttr(each).value.results)) for each in maps)
    sizes: dict[int, int] = {}
    for type_, own in zip(types, places, strict=True):
        for place, size in zip(own, getattr(type_, "shape", ()), strict=True):
            if match := _DIM.fullmatch(place):
                sizes[int(match[1])] = size
    return places, sizes, frozenset(loop for loop in sizes if _is_plain(loop, places))


def _is_plain(loop: int, maps: Sequence[Sequence[str]]) -> bool:
    for places in maps:
        having = [place for place in places if str(loop) in _DIM.findall(place)]
        if having not in ([], [f"d{loop}"]):
            return False
    return True


def _kind(op: ir.Operation, loop: int, outputs: Sequence[Sequence[str]]) -> str | None:
    """PARALLEL, or how the used results reduce over this loop; None if they differ or it is unknown."""
    if all(f"d{loop}" in places for places in outputs):
        return PARALLEL
    if op.name in _PRODUCTS:
        return SUM
    if op.name != "linalg.generic":
        return None
    (block,) = op.regions[0].blocks
    inputs = len(op.operands) - len(op.results)
    kinds = {reduction_kind(block, i, inputs + i) for i in _used(op)}
    return kinds.pop() if len(kinds) == 1 else None


def _used(op: ir.Operation) -> list[int]:
    return [i for i, result in enumerate(op.results) if next(iter(result.uses), None) is not None]


def _read(op: ir.Operation) -> set[int]:
    if op.name in _MOVES:
        return {0}
    if op.name in _PRODUCTS:
        return set(range(len(op.operands)))
    (block,) = op.regions[0].blocks
    return needed_arguments(block, _used(op))


def _passes(op: ir.Operation) -> frozenset[str]:
    if op.name in _MOVES:
        return _ANY_KIND
    if op.name in _PRODUCTS:
        # A product is linear in each factor, but its result may be larger than the factor and have more readers.
        return frozenset()
    (block,) = op.regions[0].blocks
    return frozenset((SUM,)) if is_linear(block, _used(op)) else frozenset()
