"""Copies of large arrays in several threads: one of them copies 5 GB/s, for which a batch of images would wait."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np

# Below so many bytes, waking threads takes longer than it saves.
_LARGE = 4 << 20
_THREADS = 4


def copy_into(target: np.ndarray, source: np.ndarray) -> None:
    """`target[...] = source`, two arrays of one shape and type; large ones in pieces along their first dimension."""
    if target.nbytes < _LARGE or target.shape[:1] < (_THREADS,):
        target[...] = source
        return
    pieces = zip(np.array_split(target, _THREADS), np.array_split(source, _THREADS), strict=True)
    # numpy holds no lock of Python's while it copies. `list` raises what a thread raised.
    list(_threads().map(lambda pair: np.copyto(*pair), pieces))


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "dmc copies")
