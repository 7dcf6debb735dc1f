"""Packing of live ranges: blocks of memory get offsets so that no two with overlapping live ranges overlap.

The problem is dynamic storage allocation, which is NP-hard (Garey and Johnson 1979, SR2). Blocks are placed one by one,
each at the lowest offset free during its live range, starting with those live at the peak. As in Pisarchyk and Lee,
"Efficient Memory Management for Deep Neural Net Inference" (2020), larger ones come before smaller ones; a second order
has longer live ranges before shorter ones, which stacks nested live ranges without holes. A block that ends up on top
was placed too late: it is moved to the front, and everything is placed again, until the lower bound is near.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# A packing this close to the lower bound is good enough.
_NEAR = 1.01
# For each order at most this many placements in total, and at least this many rounds.
_PLACEMENTS, _ROUNDS = 16_000, 4


@dataclass(frozen=True)
class Block:
    """Bytes in use from position `first` to position `last`, inclusive."""

    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Packing:
    """An offset for each block, and the total size."""

    offsets: tuple[int, ...]
    bytes: int


def live_bytes(blocks: Sequence[Block]) -> NDArray[np.int64]:
    """The bytes in use at each position, from 0 to the last."""
    changes = np.zeros(max((block.last for block in blocks), default=-1) + 2, dtype=np.int64)
    for block in blocks:
        changes[block.first] += block.bytes
        changes[block.last + 1] -= block.bytes
    return np.cumsum(changes)[:-1]


def lower_bound(blocks: Sequence[Block]) -> int:
    """The largest sum of bytes in use at one position: a lower bound of every packing."""
    return int(live_bytes(blocks).max(initial=0))


def pack(blocks: Sequence[Block]) -> Packing:
    """A small packing, deterministic for given blocks; its offsets are sums of sizes, and as aligned as these.

    More blocks mean fewer rounds: 6000 blocks take a few seconds at most.
    """
    enough = lower_bound(blocks) * _NEAR
    found: list[Packing] = []
    for order in _orders(blocks):
        found.append(_improve(blocks, order, enough))
        if found[-1].bytes <= enough:
            break
    return min(found, key=lambda packing: packing.bytes)


def place(blocks: Sequence[Block], order: Sequence[int]) -> Packing:
    """Places blocks one by one, in `order`, at the lowest offset free during their live range."""
    offsets = [0] * len(blocks)
    # The placed blocks, by increasing offset.
    columns = [np.zeros(len(blocks), dtype=np.int64) for _ in range(4)]
    first, last, start, end = columns
    for placed, index in enumerate(order):
        block = blocks[index]
        together = ((first[:placed] <= block.last) & (last[:placed] >= block.first)).nonzero()[0]
        offset = _lowest_gap(start.take(together), end.take(together), block.bytes)
        at = int(start[:placed].searchsorted(offset))
        for column, value in zip(columns, (block.first, block.last, offset, offset + block.bytes), strict=True):
            column[at + 1 : placed + 1] = column[at:placed]
            column[at] = value
        offsets[index] = offset
    return Packing(tuple(offsets), int(end.max(initial=0)))


def _lowest_gap(start: NDArray[np.int64], end: NDArray[np.int64], size: int) -> int:
    """The lowest offset for `size` bytes outside the ranges [start, end), which are given by increasing start."""
    if not len(start) or start[0] >= size:
        return 0
    behind = np.maximum.accumulate(end)
    fits = start[1:] >= behind[:-1] + size
    gap = int(fits.argmax()) if len(fits) else 0
    return int(behind[gap] if len(fits) and fits[gap] else behind[-1])


def _orders(blocks: Sequence[Block]) -> list[list[int]]:
    """The placement orders: blocks live at the peak first, and among them the largest or longest-lived."""
    live = live_bytes(blocks)
    crowd = [int(live[block.first : block.last + 1].max()) for block in blocks]
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-crowd[i], -blocks[i].bytes, blocks[i].first - blocks[i].last),
        lambda i: (-crowd[i], blocks[i].first - blocks[i].last, -blocks[i].bytes),
        lambda i: (-blocks[i].bytes, blocks[i].first),
    )
    return [sorted(range(len(blocks)), key=key) for key in keys]


def _improve(blocks: Sequence[Block], order: Sequence[int], enough: float) -> Packing:
    """The best of several rounds, after each of which the topmost block is moved to the front."""
    best = packing = place(blocks, order)
    for _ in range(max(_ROUNDS, _PLACEMENTS // max(len(blocks), 1))):
        if best.bytes <= enough:
            break
        top = [i for i in order if packing.offsets[i] + blocks[i].bytes == packing.bytes]
        order = [*top, *(i for i in order if packing.offsets[i] + blocks[i].bytes < packing.bytes)]
        packing = place(blocks, order)
        best = min(best, packing, key=lambda each: each.bytes)
    return best
