"""Indices of a batch are checked on the host, before a step: PyTorch raises where one is out of range, and so do we."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dmc.errors import InputError
from dmc.runtime.signature import IndexBound, TensorSpec


def check_indices(bounds: Sequence[IndexBound], specs: Sequence[TensorSpec], batch: Sequence[np.ndarray]) -> None:
    """Raises InputError for the first index that is out of range: number, place, and what reads it.

    batch: one array for each of `specs`, the whole input or a part of it.
    """
    given = {spec.name: (spec.shape, array) for spec, array in zip(specs, batch, strict=True)}
    for bound in bounds:
        shape, array = given[bound.input]
        ends = zip(shape, array.shape, bound.box, strict=True)
        # Of a part it is known what is read of it only along dimensions that are read whole.
        if all(whole == size or box == (0, whole) for whole, size, box in ends):
            _check(bound, array)


def _check(bound: IndexBound, indices: np.ndarray) -> None:
    read = indices[tuple(slice(first, end) for first, end in bound.box)]
    # Without its sign a negative number is large: one pass finds both.
    unsigned = read.astype(np.int64, copy=False).view(np.uint64)
    if not read.size or unsigned.max() < bound.size:
        return
    wrong = unsigned >= bound.size
    if bound.ignored is not None:
        wrong &= read != bound.ignored
    if not wrong.any():
        return
    place = np.argwhere(wrong)[0]
    where = [int(index) + first for index, (first, _) in zip(place, bound.box, strict=True)]
    fact = f"has {read[tuple(place)]} at {where}, out of the range of {bound.reader}, which has {bound.size}"
    beside = "" if bound.ignored is None else f", or {bound.ignored} for what is to be ignored"
    raise InputError(f"input '{bound.input}'", fact, hint=f"indices are 0 to {bound.size - 1}{beside}")
