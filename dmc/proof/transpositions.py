"""Transpositions: their composition, and which are identities."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

# The sizes of the operand's dimensions, and the operand dimension of each result dimension.
Transposition = tuple[tuple[int, ...], tuple[int, ...]]


def joined(shape: Sequence[int], order: Sequence[int]) -> Transposition:
    """The canonical form of a transposition, with the fewest dimensions; none for an identity."""
    runs: list[list[int]] = []
    for dim in (dim for dim in order if shape[dim] != 1):
        last = runs[-1][-1] if runs else None
        # Only dimensions of size 1 are between the two.
        if last is not None and last < dim and prod(shape[last + 1 : dim]) == 1:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    if len(runs) < 2:
        return (), ()
    source = sorted(runs)
    return tuple(prod(shape[dim] for dim in run) for run in source), tuple(source.index(run) for run in runs)


def composed(first: Transposition, second: Transposition) -> Transposition | None:
    """The composition of two transpositions; None if their dimensions are incompatible."""
    between = [first[0][i] for i in first[1]]
    pieces = _refined(between, second[0])
    if pieces is None:
        return None
    every = range(len(pieces))
    source = sorted(every, key=lambda each: (first[1][pieces[each][0]], each))
    result = sorted(every, key=lambda each: (second[1].index(pieces[each][1]), each))
    return joined([pieces[each][2] for each in source], [source.index(each) for each in result])


def _refined(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """The common refinement of both shapes' dimensions: the left and right dimension of each, and its size."""
    pieces: list[tuple[int, int, int]] = []
    i = j = 0
    rest, other = left[0], right[0]
    while True:
        size = min(rest, other)
        if rest % size or other % size:
            return None
        # In row-major order, the smaller one is the outer part of the larger one.
        pieces.append((i, j, size))
        rest, other = rest // size, other // size
        if rest == 1:
            i += 1
            rest = left[i] if i < len(left) else 0
        if other == 1:
            j += 1
            other = right[j] if j < len(right) else 0
        if not rest or not other:
            return pieces if rest == other else None
