"""An operation as loops over the dimensions of its operands and results: what may be split, and the outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dmc.mesh import Mesh
from dmc.placement.placement import Placement, replicated

# FIXED: the index of one piece of several, as in a slice of a dimension; it cannot be split.
PARALLEL, FIXED, SUM, MAX, MIN = "parallel", "fixed", "sum", "max", "min"

# For each dimension of a tensor the loops that run over it, major first. None: the dimension must be whole.
Dims = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Loop:
    """`size` iterations. A result without the loop is a reduction of this `kind`, or, for PARALLEL, the same in all.

    in_order: a rank's iterations must be contiguous, so no axis may split within blocks. numbered: what a composite
    computes depends on the index itself; if a numbered loop is split, a rank's part has the indices of its iterations
    in each of them as operands.
    """

    size: int
    kind: str = PARALLEL
    in_order: bool = False
    numbered: bool = False


@dataclass(frozen=True)
class Split:
    """The mesh axes that split each loop, major first, and the partial placements passed from operands to results.

    partial: (axis, kind of reduction). blocks: (axis, number), where an axis splits each of this many equal blocks of
    the rest of its loop. Both are ordered by axis.
    """

    mesh: Mesh
    axes: tuple[tuple[str, ...], ...]
    partial: tuple[tuple[str, str], ...] = ()
    blocks: tuple[tuple[str, int], ...] = ()

    def with_axis(self, loop: int, axis: str, blocks: int = 1, order: Sequence[str] = ()) -> Split:
        """The same, with one loop also split by `axis`, before those of its axes that come later in `order`."""
        axes = self.axes[loop]
        later = order[order.index(axis) + 1 :] if axis in order else ()
        place = next((i for i, each in enumerate(axes) if each in later), len(axes))
        axes = (*axes[:place], axis, *axes[place:])
        counts = tuple(sorted({**dict(self.blocks), axis: blocks}.items())) if blocks > 1 else self.blocks
        return replace(self, axes=(*self.axes[:loop], axes, *self.axes[loop + 1 :]), blocks=counts)

    def handing_on(self, axis: str, kind: str) -> Split:
        """The same, with partial sums along `axis` passed on."""
        return replace(self, partial=tuple(sorted((*self.partial, (axis, kind)))))

    def blocks_of(self, axis: str) -> int:
        """The number of blocks in which `axis` splits its loop."""
        return dict(self.blocks).get(axis, 1)

    def parts(self, loop: int) -> int:
        """The number of parts into which a loop is split."""
        return self.mesh.group_size(self.axes[loop]) if self.axes[loop] else 1

    def along(self, loop: int) -> Placement:
        """The placement of a vector with an element for each iteration of a loop."""
        axes = self.axes[loop]
        return Placement([axes], blocks={axis: self.blocks_of(axis) for axis in axes})


@dataclass(frozen=True)
class Loops:
    """The loops of one operation, as an indexing map for each operand and result.

    A dimension without loops must be whole; `why` says the reason. An operand that is not a tensor has no entry (None).
    unread: operands of which only the type matters. carried: operands to which sums are added. passes: the kinds of
    reduction that the operation commutes with if all operands it reads are partial alike, except `coefficients`, which
    must be whole. is_light: so little work that every rank may do all of it, where that moves fewer bytes.
    """

    loops: tuple[Loop, ...]
    operands: tuple[Dims | None, ...]
    results: tuple[Dims, ...]
    unread: frozenset[int] = frozenset()
    carried: frozenset[int] = frozenset()
    passes: frozenset[str] = frozenset()
    coefficients: frozenset[int] = field(default=frozenset())
    is_light: bool = False
    why: str = ""

    def numbered(self, split: Split) -> tuple[int, ...]:
        """The numbered loops; none if all of them are whole."""
        every = tuple(i for i, loop in enumerate(self.loops) if loop.numbered)
        return every if any(split.axes[loop] for loop in every) else ()

    def unsplit(self, mesh: Mesh) -> Split:
        """Every rank computes all of it."""
        return Split(mesh, ((),) * len(self.loops))

    def read(self) -> Iterator[tuple[int, Dims]]:
        """Index and dimensions of every tensor operand whose elements are read."""
        return ((i, dims) for i, dims in enumerate(self.operands) if dims is not None and i not in self.unread)

    def operand(self, index: int, split: Split) -> Placement:
        """The placement of a tensor operand under a valid `split`."""
        dims = self.operands[index]
        assert dims is not None
        partial = dict(split.partial) if index not in self.coefficients else {}
        if index in self.carried:
            partial |= {axis: SUM for axis, kind in self._reduced(dims, split) if kind == SUM}
        return self._placement(dims, split, partial)

    def result(self, index: int, split: Split) -> Placement:
        """The placement of a result under a valid `split`."""
        dims = self.results[index]
        return self._placement(dims, split, dict(split.partial) | dict(self._reduced(dims, split)))

    def fits(self, split: Split) -> bool:
        """Whether each axis is used once, the reductions commute, and the ranks' parts are equal."""
        axes = [*(axis for each in split.axes for axis in each), *(axis for axis, _ in split.partial)]
        if len(set(axes)) < len(axes) or any(kind not in self.passes for _, kind in split.partial):
            return False
        kinds = {kind for _, kind in split.partial} | {
            loop.kind for loop, axes in zip(self.loops, split.axes, strict=True) if axes and loop.kind != PARALLEL
        }
        if FIXED in kinds or len(kinds) > 1:
            return False  # A sum of maxima is not a maximum of sums.
        return all(_divides(loop, axes, split) for loop, axes in zip(self.loops, split.axes, strict=True))

    def extended(self, split: Split, dims: Dims, placement: Placement, axis: str) -> Split | None:
        """`split` with `axis` where it splits a tensor of these dimensions and placement; None if impossible.

        The result is not checked for validity.
        """
        for loops, axes in zip(dims, placement.dims, strict=True):
            left = [self.loops[loop].size for loop in loops]
            for each in axes:
                size = split.mesh.axis_size(each)
                found = _find(left, placement.blocks_of(each), size)
                if found is None:
                    break
                place, blocks = found
                if each == axis:
                    return split.with_axis(loops[place], axis, blocks, axes)
                left[place] //= size
        return None

    def _placement(self, dims: Dims, split: Split, partial: Mapping[str, str]) -> Placement:
        if not partial and not any(split.axes):
            return replicated(len(dims))
        blocks: dict[str, int] = {}
        for loops in dims:
            left = 1  # Earlier loops: their iterations are blocks.
            for loop in loops:
                blocks.update((axis, left * split.blocks_of(axis)) for axis in split.axes[loop])
                left *= self.loops[loop].size // split.parts(loop)
        return Placement([[axis for loop in loops for axis in split.axes[loop]] for loops in dims], partial, blocks)

    def _reduced(self, dims: Dims, split: Split) -> Iterator[tuple[str, str]]:
        present = {loop for loops in dims for loop in loops}
        for i, (loop, axes) in enumerate(zip(self.loops, split.axes, strict=True)):
            if i not in present and loop.kind != PARALLEL:
                yield from ((axis, loop.kind) for axis in axes)


def whole(operand_ranks: Sequence[int | None], result_ranks: Sequence[int], why: str) -> Loops:
    """The loops of an operation that every rank computes whole; a rank of None is an operand that is not a tensor."""
    operands = tuple(None if rank is None else ((),) * rank for rank in operand_ranks)
    return Loops((), operands, tuple(((),) * rank for rank in result_ranks), why=why)


def _divides(loop: Loop, axes: Sequence[str], split: Split) -> bool:
    size = loop.size
    for axis in axes:
        ranks, blocks = split.mesh.axis_size(axis), split.blocks_of(axis)
        if size % (ranks * blocks) or (loop.in_order and blocks > 1):
            return False
        size //= ranks
    return True


def _find(left: Sequence[int], blocks: int, ranks: int) -> tuple[int, int] | None:
    """For a split dimension that joins several loops: the loop that is split, and its number of blocks."""
    before = 1
    for i, size in enumerate(left):
        if blocks % before == 0 and size % (blocks // before * ranks) == 0:
            return i, blocks // before
        before *= size
    return None
