"""Indices of a batch are checked on the host, before a step: PyTorch raises where one is out of range, and so do we."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmc.errors import InputError
from dmc.program.signature import IndexBound, TensorSpec


class IndexCheck:
    """Checks the indices of one input. `bound` is of one of `specs`."""

    def __init__(self, bound: IndexBound, specs: Sequence[TensorSpec]) -> None:
        self._bound = bound
        self._place = next(place for place, spec in enumerate(specs) if spec.name == bound.input)
        self._shape = specs[self._place].shape
        self._read = tuple(slice(first, end) for first, end in bound.box)
        self._is_whole = all(box == (0, size) for box, size in zip(bound.box, self._shape, strict=True))

    def check(self, batch: Sequence[np.ndarray]) -> None:
        """Raises InputError for the first index that is out of range: number, place, and what reads it.

        batch: one array for each of the inputs, whole or a part.
        """
        array = batch[self._place]
        if array.shape != self._shape and not self._is_known(array.shape):
            return
        read = array if self._is_whole else array[self._read]
        # Without its sign a negative number is large: one pass finds both.
        wide = read.astype(np.int64, copy=False)
        unsigned = (wide - self._bound.least if self._bound.least else wide).view(np.uint64)
        if read.size and np.maximum.reduce(unsigned, axis=None) >= self._bound.size - self._bound.least:
            self._search(read, unsigned)

    def _is_known(self, part: Sequence[int]) -> bool:
        """Of a part it is known what is read of it only along dimensions that are read whole."""
        ends = zip(self._shape, part, self._bound.box, strict=True)
        return all(whole == size or box == (0, whole) for whole, size, box in ends)

    def _search(self, read: np.ndarray, unsigned: np.ndarray) -> None:
        """Raises InputError for an index that is out of range, unless it is the ignored value."""
        bound = self._bound
        wrong = unsigned >= bound.size - bound.least
        if bound.ignored is not None:
            wrong &= read != bound.ignored
        if not wrong.any():
            return
        place = np.argwhere(wrong)[0]
        where = [int(index) + first for index, (first, _) in zip(place, bound.box, strict=True)]
        fact = f"has {read[tuple(place)]} at {where}, out of the range of {bound.reader}, which has {bound.size}"
        beside = "" if bound.ignored is None else f", or {bound.ignored} for what is to be ignored"
        raise InputError(f"input '{bound.input}'", fact, hint=f"indices are {bound.least} to {bound.size - 1}{beside}")
