"""Packing of lifetimes: blocks of memory get offsets so that no two that live together overlap.

The problem is dynamic storage allocation, which is NP-hard (Garey and Johnson, SR2). Two greedy rules are tried. *Best
fit by position* goes through the step and gives each block the smallest hole that is free when it begins. *By size*
takes the largest blocks first and gives each the lowest place that is free for as long as it lives (Pisarchyk and Lee,
"Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Block:
    """Bytes that are in use from position `first` to position `last`, both included."""

    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Packing:
    """An offset for each block, and the bytes that all of them take."""

    offsets: tuple[int, ...]
    bytes: int


def lower_bound(blocks: Sequence[Block]) -> int:
    """The largest sum of bytes that are in use at one position: no packing takes less."""
    return max(live_bytes(blocks), default=0)


def live_bytes(blocks: Sequence[Block]) -> list[int]:
    """The bytes in use at each position, from 0 to the last."""
    changes = [0] * (max((block.last for block in blocks), default=-1) + 2)
    for block in blocks:
        changes[block.first] += block.bytes
        changes[block.last + 1] -= block.bytes
    return [int(total) for total in np.cumsum(np.array(changes, dtype=np.int64))][:-1]


def pack(blocks: Sequence[Block]) -> Packing:
    """The best packing that the rules find; its offsets are sums of sizes, so they are aligned as the sizes are."""
    bound = lower_bound(blocks)
    best = None
    for rule in _RULES:
        packing = rule(blocks)
        if best is None or packing.bytes < best.bytes:
            best = packing
        if best.bytes == bound:
            break
    assert best is not None
    return best


def by_position(blocks: Sequence[Block]) -> Packing:
    """Best fit in the order in which blocks begin, the larger first: O(n log n)."""
    heap = _Holes()
    offsets = [0] * len(blocks)
    ending = sorted(range(len(blocks)), key=lambda i: blocks[i].last)
    done = 0
    for i in sorted(range(len(blocks)), key=lambda i: (blocks[i].first, -blocks[i].last, -blocks[i].bytes)):
        while blocks[ending[done]].last < blocks[i].first:
            heap.give_back(offsets[ending[done]], blocks[ending[done]].bytes)
            done += 1
        offsets[i] = heap.take(blocks[i].bytes)
    return Packing(tuple(offsets), heap.top)


class _Holes:
    """The free ranges below `top`, found by size and by place."""

    def __init__(self) -> None:
        self.top = 0
        self._by_size: list[tuple[int, int]] = []
        self._ends: dict[int, int] = {}  # From the first byte of a hole to the byte behind it.
        self._starts: dict[int, int] = {}  # The inverse.

    def take(self, size: int) -> int:
        """Takes `size` bytes of the smallest hole that has them, else at the top."""
        found = bisect_left(self._by_size, (size, -1))
        if found < len(self._by_size):
            room, start = self._by_size.pop(found)
            self._forget(start)
            if room > size:
                self._add(start + size, start + room)
            return start
        # A hole at the top is grown.
        start = self._starts.get(self.top, self.top)
        if start < self.top:
            self._remove(start)
        self.top = start + size
        return start

    def give_back(self, start: int, size: int) -> None:
        """Frees a range, which becomes one with the holes beside it."""
        end = start + size
        if size == 0:
            return
        if end in self._ends:
            end = self._remove(end)
        if start in self._starts:
            start = self._starts[start]
            self._remove(start)
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        self._ends[start], self._starts[end] = end, start
        insort(self._by_size, (end - start, start))

    def _remove(self, start: int) -> int:
        end = self._ends[start]
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        return self._forget(start)

    def _forget(self, start: int) -> int:
        end = self._ends.pop(start)
        del self._starts[end]
        return end


def by_size(blocks: Sequence[Block]) -> Packing:
    """The lowest free place for each block, the largest first."""
    order = sorted(range(len(blocks)), key=lambda i: (-blocks[i].bytes, blocks[i].first))
    return _lowest(blocks, order)


def by_lifetime(blocks: Sequence[Block]) -> Packing:
    """The lowest free place for each block, the longest-lived first: nested lifetimes are stacked without a hole."""
    order = sorted(range(len(blocks)), key=lambda i: (blocks[i].first - blocks[i].last, -blocks[i].bytes))
    return _lowest(blocks, order)


def _lowest(blocks: Sequence[Block], order: Sequence[int]) -> Packing:
    count = len(blocks)
    first, last, start, end = (np.zeros(count, dtype=np.int64) for _ in range(4))
    offsets = [0] * count
    for placed, i in enumerate(order):
        block = blocks[i]
        together = (first[:placed] <= block.last) & (last[:placed] >= block.first)
        offsets[i] = _lowest_gap(start[:placed][together], end[:placed][together], block.bytes)
        first[placed], last[placed] = block.first, block.last
        start[placed], end[placed] = offsets[i], offsets[i] + block.bytes
    return Packing(tuple(offsets), int(end.max(initial=0)))


def _lowest_gap(start: np.ndarray, end: np.ndarray, size: int) -> int:
    """The lowest place for `size` bytes beside the ranges [start, end)."""
    if not len(start):
        return 0
    order = np.argsort(start)
    behind = np.concatenate(([0], np.maximum.accumulate(end[order])))
    gaps = np.flatnonzero(start[order] - behind[:-1] >= size)
    return int(behind[gaps[0]] if len(gaps) else behind[-1])


_RULES = (by_position, by_lifetime, by_size)
