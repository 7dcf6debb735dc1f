"""Indices of a batch are checked on the host, before a step: PyTorch raises where one is out of range, and so do we."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dmc.errors import InputError


@dataclass(frozen=True)
class IndexBound:
    """What reads an input as indices, and how many there are to choose from.

    reader: for people, such as "the embedding 'wte'". size: indices are 0 to size - 1. ignored: a value beside them
    that is allowed, too. box: for each dimension of the input, from where to where it is read.
    """

    input: str
    reader: str
    size: int
    ignored: int | None
    box: tuple[tuple[int, int], ...]

    def check(self, indices: np.ndarray) -> None:
        """Raises InputError for an index out of range: number, place, and what reads it."""
        read = indices[tuple(slice(first, end) for first, end in self.box)]
        if not read.size or (read.min() >= 0 and read.max() < self.size):
            return
        wrong = (read < 0) | (read >= self.size)
        if self.ignored is not None:
            wrong &= read != self.ignored
        if not wrong.any():
            return
        place = np.argwhere(wrong)[0]
        where = [int(index) + first for index, (first, _) in zip(place, self.box, strict=True)]
        fact = f"has {read[tuple(place)]} at {where}, out of the range of {self.reader}, which has {self.size}"
        beside = "" if self.ignored is None else f", or {self.ignored} for what is to be ignored"
        raise InputError(f"input '{self.input}'", fact, hint=f"indices are 0 to {self.size - 1}{beside}")


def check_indices(bounds: Sequence[IndexBound], batch: Mapping[str, np.ndarray]) -> None:
    """Raises InputError for the first index that is out of range."""
    for bound in bounds:
        bound.check(batch[bound.input])
