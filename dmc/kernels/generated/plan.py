"""Which launches compute the results of a region.

As much as possible in one; a value that is not available where it is read is computed by an earlier launch, and read
from memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dmc.dtypes import NARROW
from dmc.kernels.generated import matmul, ping_pong, pointwise, row_sums, rows, split, turned
from dmc.kernels.generated import tiles as tiling
from dmc.kernels.generated.column_sums import ColumnSums, are_column_sums
from dmc.kernels.generated.convolutions import convolution_candidates
from dmc.kernels.generated.emitter import Unbound
from dmc.kernels.generated.launch import Launch, Root
from dmc.kernels.generated.products import Product
from dmc.kernels.generated.reducing import Reduction
from dmc.kernels.generated.structure import heavy_values, reads
from dmc.kernels.generated.value import Declined
from dmc.kernels.implementation import Candidate
from dmc.kernels.problem import TensorType
from dmc.kernels.recipe import Buffer, Call, Recipe, scratch

# This many rows keep a GPU busy with one program per row.
_ENOUGH_ROWS = 64
_MOST_LAUNCHES = 64


@dataclass
class Plan:
    """The launches of one recipe, as they are found. choice: the index of the candidate, if there are that many."""

    name: str
    memory: dict[Any, Buffer]
    results: list[Root]
    choice: int
    calls: list[Call] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    scratch: list[TensorType] = field(default_factory=list)
    choices: int = 1
    chosen: list[Candidate] = field(default_factory=list)

    @property
    def label(self) -> str:
        """What was chosen."""
        return "; ".join(dict.fromkeys(map(str, self.chosen))) or "the only one"

    def run(self, before: Sequence[Sequence[Any]]) -> Recipe:
        """Computes the values `before`, in order, several at once, then the results. Raises Unbound for others that
        must be computed before."""
        for values in before:
            self._make_before(values)
        self._make([root for root in self.results if self.memory.get(root.value) != root.buffer])
        return Recipe(tuple(self.calls), tuple(self.scratch), in_place=self._in_place())

    def _in_place(self) -> tuple[tuple[int, int], ...]:
        """The results that may replace an operand, which no later launch reads."""
        pairs: list[tuple[int, int]] = []
        for launch, *later in (self.launches[i:] for i in range(len(self.launches))):
            still_read = {buffer for each in later for buffer in each.read_buffers()}
            pairs += [
                (result.index, operand.index) for result, operand in launch.in_place() if operand not in still_read
            ]
        return tuple(pairs)

    def _done(self, launch: Launch, call: Call) -> None:
        self.launches.append(launch)
        self.calls.append(call)

    def _make_before(self, values: Sequence[Any]) -> None:
        roots: list[Root] = []
        for value in values:
            buffer = next((root.buffer for root in self.results if root.value == value), None)
            if buffer is None:
                buffer = self._scratch(str(value.type.element_type), tuple(value.type.shape))
            roots.append(Root(value, buffer))
        self._make(roots)
        self.memory.update((root.value, root.buffer) for root in roots)

    def _scratch(self, dtype: str, shape: tuple[int, ...]) -> Buffer:
        self.scratch.append(TensorType(dtype, shape))
        return scratch(len(self.scratch) - 1)[0]

    def _make(self, roots: Sequence[Root]) -> None:
        """The launches that compute `roots` from memory."""
        heavy = heavy_values([root.value for root in roots], self.memory)
        if not heavy:
            self._pointwise(roots)
            return
        reductions = [Reduction.of(value) for value in heavy]
        products = [Product.of(each) for each in reductions]
        if len(heavy) == 1 and products[0] is not None:
            self._product(products[0], roots)
            return
        first, *others = reductions
        if products[0] is not None and are_column_sums(products[0], others) and self._follow(first, others, roots):
            self._product(products[0], roots, others)
            return
        by_rows = [each for each in reductions if each.loops.is_by_rows]
        sums = [each for each in reductions if each not in by_rows]
        # Rows that depend on a sum find it missing, and it is computed before.
        if by_rows and sums and row_sums.are_of_rows(by_rows, sums):
            self._rows_and_sums(by_rows, sums, roots)
            return
        signatures = {each.loops.signature for each in reductions}
        if len(signatures) > 1 or any(products):
            raise Unbound(heavy[0])
        loops = reductions[0].loops
        waiting = heavy_values([each for value in heavy for each in reads(value)], self.memory)
        if loops.is_by_rows and (loops.kept >= _ENOUGH_ROWS or waiting):
            self._rows(reductions, roots)
        else:
            self._split(reductions, roots)

    def _choose(self, candidates: Sequence[Candidate]) -> Candidate:
        self.choices = max(self.choices, len(candidates))
        self.chosen.append(candidates[min(self.choice, len(candidates) - 1)])
        return self.chosen[-1]

    def _launch(self, title: str) -> Launch:
        if len(self.calls) >= _MOST_LAUNCHES:
            raise Declined(f"more than {_MOST_LAUNCHES} launches")
        suffix = f"_{len(self.calls) + 1}" if self.calls else ""
        return Launch(f"{self.name}{suffix}", title, self.memory)

    def _pointwise(self, roots: Sequence[Root]) -> None:
        for count in dict.fromkeys(math.prod(root.shape) for root in roots):
            own = [root for root in roots if math.prod(root.shape) == count]
            title = f"{self.name}: {count} elements, each for itself."
            launch = self._launch(title)
            call = pointwise.pointwise(launch, own, self._choose(pointwise.candidates(own)))
            across = turned.turned_dimension(launch, own[0])
            if across is not None:
                launch = self._launch(title)
                call = turned.turned(launch, own, across, self._choose(turned.CANDIDATES))
            self._done(launch, call)

    def _after(self, roots: Sequence[Root], sizes: Sequence[int], value: Any) -> list[Root]:
        """The roots of these sizes; separate launches, which do not read `value`, compute others."""
        fitting = [root for root in roots if math.prod(root.shape) in sizes]
        others = [root for root in roots if root not in fitting]
        if heavy_values([root.value for root in others], self.memory) or not fitting:
            raise Unbound(value)
        self._pointwise(others)
        return fitting

    def _rows(self, reductions: Sequence[Reduction], roots: Sequence[Root]) -> None:
        loops = reductions[0].loops
        fitting = self._after(roots, (loops.kept, loops.kept * loops.depth), reductions[0].value)
        chosen = self._choose(rows.candidates(loops.depth))
        launch = self._launch(f"{self.name}: {loops.kept} rows of {loops.depth}.")
        self._done(launch, rows.rows(launch, fitting, reductions, chosen))

    def _split(self, reductions: Sequence[Reduction], roots: Sequence[Root]) -> None:
        loops = reductions[0].loops
        ready = [each.value for each in reductions if not heavy_values(reads(each.value), self.memory)]
        if len(ready) < len(reductions):
            raise Unbound(*ready)
        fitting = self._after(roots, (loops.kept, loops.kept * loops.depth), reductions[0].value)
        elements = [root for root in fitting if math.prod(root.shape) != loops.kept]
        if heavy_values([root.value for root in elements], self.memory):
            raise Unbound(*ready)
        chosen = self._choose(split.candidates(loops, elements))
        share = split.Sharing.of(loops, chosen)
        wanted = [root for root in fitting if root not in elements]
        launch = self._launch(f"{self.name}: {loops.kept} results of {loops.depth} each, by {share.splits} programs.")
        sums, kept, part = split.partial(launch, share, reductions, elements)
        if share.splits == 1:
            split.bind(launch, share, reductions, sums, kept)
            for root in wanted:
                launch.root(root, kept)
            self._done(launch, launch.call(share.programs, chosen.warps, 1))
            return
        parts = [self._scratch(each.held, (share.splits, loops.kept)) for each in reductions]
        split.leave(launch, share, reductions, sums, (kept, part), parts)
        self._done(launch, launch.call(share.programs, chosen.warps, 1))
        last = self._launch(f"{self.name}: {loops.kept} results from {share.splits} parts each.")
        self._done(last, split.finish(last, share, reductions, wanted, parts))

    def _follow(self, product: Reduction, sums: Sequence[Reduction], roots: Sequence[Root]) -> bool:
        """Whether sums are of what is computed from a product, and no element in turn depends on one of them."""
        size = math.prod(product.value.type.shape)
        elements = [root.value for root in roots if math.prod(root.shape) == size]
        before = [value for each in sums for value in reads(each.value)]
        return not heavy_values([*elements, *before], (*self.memory, product.value))

    def _rows_and_sums(self, rows_: Sequence[Reduction], sums: Sequence[Reduction], roots: Sequence[Root]) -> None:
        loops = rows_[0].loops
        fitting = self._after(roots, (loops.kept, loops.kept * loops.depth, loops.depth), rows_[0].value)
        wanted = [root for root in fitting if math.prod(root.shape) == loops.depth]
        fitting = [root for root in fitting if root not in wanted]
        chosen = self._choose(row_sums.candidates(loops.depth))
        share = row_sums.sharing(rows_, sums, chosen)
        parts = [self._scratch(each.held, (share.splits, loops.depth)) for each in sums]
        launch = self._launch(f"{self.name}: {loops.kept} rows of {loops.depth}, and sums over them.")
        self._done(launch, row_sums.rows_and_sums(launch, fitting, rows_, chosen, sums, parts))
        last = self._launch(f"{self.name}: {loops.depth} results from {share.splits} parts each.")
        self._done(last, split.finish(last, share, sums, wanted, parts))

    def _product(self, product: Product, roots: Sequence[Root], summed: Sequence[Reduction] = ()) -> None:
        value, columns = product.reduction.value, product.size("columns")
        fitting = self._after(roots, (math.prod(value.type.shape), *([columns] if summed else ())), value)
        wanted = [root for root in fitting if summed and math.prod(root.shape) == columns]
        fitting = [root for root in fitting if root not in wanted]
        matrices = tiling.matrices_of(product, self.memory)
        candidates = tiling.candidates(product, _is_narrow(product), matrices is not None)
        if not any(each["copied"] for each in candidates):
            candidates = (*convolution_candidates(product, self.memory), *candidates)
        if summed and any(each["splits"] > 1 for each in candidates):
            raise Unbound(value)
        chosen = self._choose(candidates)
        tiles = tiling.Tiles.of(product, chosen, matrices).at_corners(chosen, self.memory)
        sizes = " × ".join(str(product.size(kind)) for kind in ("batches", "rows", "columns", "depth"))
        title = f"{self.name}: a product, {sizes} (batches × rows × columns × depth)."
        parts = [self._scratch(each.held, (tiles.count("rows"), columns)) for each in summed]
        sums = ColumnSums(tuple(summed), tuple(parts))
        self._tiled(candidates, tiles, fitting, chosen, title, sums)
        if summed:
            last = self._launch(f"{self.name}: {columns} results from {tiles.count('rows')} parts each.")
            self._done(last, split.finish(last, sums.share(tiles), summed, wanted, parts))

    def _tiled(
        self,
        candidates: Sequence[Candidate],
        tiles: tiling.Tiles,
        roots: Sequence[Root],
        chosen: Candidate,
        title: str,
        sums: ColumnSums,
    ) -> None:
        if tiles.groups > 1:
            launch = self._launch(title)
            call = ping_pong.multiply(launch, tiles, roots, chosen, sums)
            if call is not None:
                self._done(launch, self._with_plain(call, tiles, roots, chosen, title, sums=sums))
                return
            # What takes its place is a candidate of its own, which counts once.
            rows = chosen["rows"]
            chosen = self.chosen[-1] = next(
                each for each in candidates if each.get("groups", 1) == 1 and each["rows"] == rows
            )
            tiles = tiling.Tiles.of(tiles.product, chosen, tiles.matrices)
        launch = self._launch(title)
        if tiles.splits == 1:
            call = matmul.multiply(launch, tiles, roots, None, chosen, sums)
            self._done(launch, self._with_plain(call, tiles, roots, chosen, title, sums=sums))
            return
        part = self._scratch("f32", matmul.parts_type(tiles))
        call = matmul.multiply(launch, tiles, (), part, chosen)
        self._done(launch, self._with_plain(call, tiles, (), chosen, title, part))
        last = self._launch(f"{self.name}: the sum of {tiles.splits} partial products.")
        self._done(last, matmul.add_up(last, tiles, roots, part))

    def _with_plain(
        self,
        call: Call,
        tiles: tiling.Tiles,
        roots: Sequence[Root],
        chosen: Candidate,
        title: str,
        part: Buffer | None = None,
        sums: ColumnSums = ColumnSums(),
    ) -> Call:
        """The call, with what takes its place where a buffer is not aligned."""
        if not call.views:
            return call
        plain = matmul.multiply(self._launch(title), tiles.by_threads(), roots, part, chosen, sums)
        return replace(call, plain=plain)


def _is_narrow(product: Product) -> bool:
    """Whether both factors have 16 bits, widened or not."""
    op = product.reduction.value.owner
    return all(_narrow(op.operands[number]) for number in (product.first, product.second))


def _narrow(value: Any) -> bool:
    while str(value.type.element_type) not in NARROW:
        owner = value.owner
        if not hasattr(owner, "operands") or not len(owner.operands) or owner.name not in _PLAIN:
            return False
        value = owner.operands[0]
    return True


_PLAIN = ("linalg.generic", "linalg.transpose", "tensor.expand_shape", "tensor.collapse_shape", "tensor.cast")
