"""Reductions over rows with prologue and epilogue: a program takes whole rows.

Rows that fit are kept in registers, so that everything is read once. Longer ones need one pass for each reduction that
depends on another, and one more for values computed from the results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmc.kernels.generated.index import Index, variable
from dmc.kernels.generated.launch import Launch, Root, power_of_two, zeros
from dmc.kernels.generated.reducing import Reduction, finished, reduce_tile, tile_of
from dmc.kernels.generated.structure import heavy_values, reads
from dmc.kernels.implementation import Candidate, candidate
from dmc.kernels.recipe import Call

_MOST_AT_ONCE = 8192


def candidates(width: int) -> tuple[Candidate, ...]:
    """The candidates for rows of `width` elements."""
    block = power_of_two(width)
    if block > _MOST_AT_ONCE:
        return tuple(candidate(rows=1, block=size, warps=warps) for size, warps in ((4096, 8), (8192, 16), (2048, 4)))
    if block > 2048:
        return tuple(candidate(rows=1, block=block, warps=warps) for warps in (8, 16, 4))
    few = max(1, 1024 // block)
    # A thread with 32 elements takes the least energy: a few warps reduce a row with few instructions.
    alone = [candidate(rows=1, block=block, warps=warps) for warps in (block // 1024, block // 512) if warps]
    several = [candidate(rows=count * few, block=block, warps=warps) for count, warps in ((1, 4), (2, 4), (4, 8))]
    return tuple(dict.fromkeys((*alone, *several)))


def rows(launch: Launch, roots: Sequence[Root], reductions: Sequence[Reduction], chosen: Candidate) -> Call:
    """Computes `roots`, each with one element per row or per element of the rows.

    From the last rows to the first: the product before wrote the last ones last, so that they are still in the cache,
    and the product behind reads the first ones first.
    """
    loops = reductions[0].loops
    count = min(chosen["rows"], power_of_two(loops.kept))
    programs = -(-loops.kept // count)
    program = f"{programs - 1} - tl.program_id(0)"
    if count > 1:
        mask = f"{{}} < {loops.kept}" if loops.kept % count else ""
        launch.variable("row", f"({program}) * {count} + tl.arange(0, {count})[:, None]", mask)
    elif loops.kept > 1:
        launch.variable("row", program)
    taken = Rows(launch, chosen["block"], count, loops.kept, loops.depth)
    taken.reduce(reductions)
    taken.store(roots)
    return launch.call(programs, chosen.warps, 1)


class Rows:
    """The rows of a program: `count` of them at once, `block` elements of each at a time."""

    def __init__(self, launch: Launch, block: int, count: int, rows: int, width: int) -> None:
        self.launch, self.writer = launch, launch.writer
        self.block, self.count, self.rows, self.width = block, count, rows, width
        self.row = variable("row", rows)
        self.shape = f"[{count}, {block}]" if count > 1 else f"[{block}]"
        self.is_whole = block >= width
        self.columns = f"tl.arange(0, {block})" + ("[None, :]" if count > 1 else "")
        self.mask = f"{{}} < {width}" if width % block else ""
        if self.is_whole:
            self.column = variable(launch.variable("column", self.columns, self.mask), width)

    def reduce(self, reductions: Sequence[Reduction]) -> None:
        """Computes the reductions, each of which may read earlier ones."""
        if self.is_whole:
            for each in reductions:
                self._bind(each, self._tile(each, self.column))
            return
        for level in _levels(reductions):
            self._go_through(level)

    def _tile(self, reduction: Reduction, column: Index) -> str:
        value = reduction.contribution(self.launch.emitter, reduction.loops.places(self.row, column))
        axes = column.variables | (self.row.variables if self.count > 1 else frozenset())
        return tile_of(self.launch, reduction, value, self.shape, axes, column.variables)

    def _bind(self, reduction: Reduction, tile: str) -> None:
        name = reduce_tile(self.launch, reduction, tile, 1 if self.count > 1 else None, self.row.variables)
        loops = reduction.loops.places(self.row, variable("none", 1))
        made = finished(self.launch, reduction, name, self.row.variables, loops)
        self.launch.emitter.bound[reduction.value] = reduction.result_places(loops), made

    def _go_through(self, level: Sequence[Reduction]) -> None:
        """One loop over the rows, which computes independent reductions."""
        sums = [self.writer.name(f"{each.stem()}s") for each in level]
        for name, each in zip(sums, level, strict=True):
            self.writer.raw(f"{name} = {zeros(self.shape, each.neutral, each.held)}")
        column = self.writer.name("column")
        with self.writer.loop(f"for start in range(0, {self.width}, {self.block}):", column):
            self.launch.declare(column, "column", f"start + {self.columns}", self.mask)
            for name, each in zip(sums, level, strict=True):
                tile = self._tile(each, variable(column, self.width))
                self.writer.raw(f"{name} = {each.combiner.join.format(name, tile)}")
        for name, each in zip(sums, level, strict=True):
            self._bind(each, name)

    def store(self, roots: Sequence[Root]) -> None:
        """Stores the roots of each row and of each element."""
        by_element = [root for root in roots if math.prod(root.shape) != self.rows]
        if self.is_whole:
            for root in by_element:
                self.launch.root(root, self.row * self.width + self.column)
        elif by_element:
            column = self.writer.name("column")
            with self.writer.loop(f"for start in range(0, {self.width}, {self.block}):", column):
                self.launch.declare(column, "column", f"start + {self.columns}", self.mask)
                for root in by_element:
                    self.launch.root(root, self.row * self.width + variable(column, self.width))
                self.launch.flush()
        for root in roots:
            if root not in by_element:
                self.launch.root(root, self.row)


def _levels(reductions: Sequence[Reduction]) -> list[list[Reduction]]:
    """The reductions by the length of their chain of dependences."""
    level: dict[object, int] = {}
    for each in reductions:
        before = heavy_values(reads(each.value), ())
        level[each.value] = 1 + max((level.get(value, 0) for value in before), default=0)
    found: list[list[Reduction]] = [[] for _ in range(max(level.values()))]
    for each in reductions:
        found[level[each.value] - 1].append(each)
    return found
