"""Transpositions: what two of them are together, and which change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

# The sizes of the dimensions of what is transposed, and which of these each dimension of the result is.
Transposition = tuple[tuple[int, ...], tuple[int, ...]]


def joined(shape: Sequence[int], order: Sequence[int]) -> Transposition:
    """The same transposition in as few dimensions as can be, told by what must move; none where nothing moves."""
    runs: list[list[int]] = []
    for dim in (dim for dim in order if shape[dim] != 1):
        last = runs[-1][-1] if runs else None
        # Between the two there are but dimensions of size 1.
        if last is not None and last < dim and prod(shape[last + 1 : dim]) == 1:
            runs[-1].append(dim)
        else:
            runs.append([dim])
    if len(runs) < 2:
        return (), ()
    source = sorted(runs)
    return tuple(prod(shape[dim] for dim in run) for run in source), tuple(source.index(run) for run in runs)


def composed(first: Transposition, second: Transposition) -> Transposition | None:
    """One transposition for two, one behind the other; None where they cut the elements in ways that do not fit."""
    between = [first[0][i] for i in first[1]]
    pieces = _refined(between, second[0])
    if pieces is None:
        return None
    every = range(len(pieces))
    source = sorted(every, key=lambda each: (first[1][pieces[each][0]], each))
    result = sorted(every, key=lambda each: (second[1].index(pieces[each][1]), each))
    return joined([pieces[each][2] for each in source], [source.index(each) for each in result])


def _refined(left: Sequence[int], right: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """Dimensions of which those of both shapes are made: which of the left and right each is in, and its size."""
    pieces: list[tuple[int, int, int]] = []
    i = j = 0
    rest, other = left[0], right[0]
    while True:
        size = min(rest, other)
        if rest % size or other % size:
            return None
        # Row-major, the outer part of the larger one is what the smaller one is.
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
