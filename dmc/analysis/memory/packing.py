"""Packing of live ranges: blocks of memory get offsets so that no two with overlapping live ranges overlap.

The problem is dynamic storage allocation, which is NP-hard (Garey and Johnson 1979, SR2). Blocks are placed one by one,
each at the lowest offset free during its live range. Of several orders, in most of which larger blocks come before
smaller ones (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020), the best are
improved: a block that ends up on top was placed too late, and moves forward to a random place (hill climbing, of fixed
seed). What is small is placed at the end, in the holes that large blocks leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

# A packing this close to the lower bound is good enough; beyond the other, all orders are improved.
_NEAR, _FAR = 1.005, 1.02
# Of the lower bound: smaller blocks are placed at the end.
_SMALL = 1 / 2000
# So many orders are improved at first, by at most so many further packings and so many placements each.
_STARTS, _ROUNDS, _PLACEMENTS = 2, 500, 50_000
# How often what is on top moves to the very front.
_TO_FRONT = 0.3


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
    bound = lower_bound(blocks)
    enough, smallest = bound * _NEAR, bound * _SMALL
    tried: list[tuple[Packing, list[int]]] = []
    placement, best = Placement(blocks), math.inf
    for order in _orders(blocks):
        # Beside what is good enough, only a smaller one counts.
        packing = placement.place(order, best - 1 if best <= enough else math.inf)
        if packing is not None:
            tried.append((packing, order))
            best = min(best, packing.bytes)
    tried.sort(key=lambda each: each[0].bytes)
    found = [tried[0][0]]
    for number, (_, start) in enumerate(tried):
        if min(each.bytes for each in found) <= (enough if number < _STARTS else bound * _FAR):
            break
        large = [i for i in start if blocks[i].bytes > smallest]
        small = [i for i in start if blocks[i].bytes <= smallest]
        improved = _improved([blocks[i] for i in large], enough)
        found.append(place(blocks, [*(large[i] for i in improved), *small]))
    return min(found, key=lambda packing: packing.bytes)


def place(blocks: Sequence[Block], order: Sequence[int]) -> Packing:
    """Places blocks one by one, in `order`, at the lowest offset free during their live range."""
    packing = Placement(blocks).place(order)
    assert packing is not None, "there is no limit"
    return packing


class Placement:
    """Places the same blocks in many orders."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        columns = [(block.bytes, block.first, block.last) for block in blocks]
        self._bytes, self._first, self._last = np.array(columns, dtype=np.int64).reshape(-1, 3).T.copy()

    def place(
        self, order: Sequence[int], limit: float = math.inf, before: Sequence[int] = (), known: Sequence[int] = ()
    ) -> Packing | None:
        """The packing of an order; None where a block that is placed would end beyond `limit`.

        before, known: an order that may begin with the same blocks, which are then where its packing has them.
        """
        offsets = np.zeros(len(order), dtype=np.int64)
        same = next(
            (at for at, (one, other) in enumerate(zip(order, before, strict=False)) if one != other), len(before)
        )
        begun = np.array(order[:same], dtype=np.int64)
        offsets[begun] = np.array(known, dtype=np.int64)[begun]
        # The placed blocks, by increasing offset.
        placed, start, end = (np.zeros(len(order), dtype=np.int64) for _ in range(3))
        placed[:same] = begun[np.argsort(offsets[begun], kind="stable")]
        start[:same], end[:same] = offsets[placed[:same]], (offsets + self._bytes)[placed[:same]]
        for count in range(same, len(order)):
            index = order[count]
            size = int(self._bytes[index])
            live = (self._first <= self._last[index]) & (self._last >= self._first[index])
            together = live.take(placed[:count]).nonzero()[0]
            offset = _lowest_gap(start.take(together), end.take(together), size)
            if offset + size > limit:
                return None
            at = int(start[:count].searchsorted(offset))
            for column, value in ((placed, index), (start, offset), (end, offset + size)):
                column[at + 1 : count + 1] = column[at:count]
                column[at] = value
            offsets[index] = offset
        return Packing(tuple(offsets.tolist()), int(end.max(initial=0)))


def _lowest_gap(start: NDArray[np.int64], end: NDArray[np.int64], size: int) -> int:
    """The lowest offset for `size` bytes outside the ranges [start, end), which are given by increasing start."""
    if not len(start) or start[0] >= size:
        return 0
    behind = np.maximum.accumulate(end)
    fits = start[1:] >= behind[:-1] + size
    gap = int(fits.argmax()) if len(fits) else 0
    return int(behind[gap] if len(fits) and fits[gap] else behind[-1])


def _orders(blocks: Sequence[Block]) -> list[list[int]]:
    """The placement orders: the largest first, or those live at the peak, and among them the largest or longest."""
    live = live_bytes(blocks)
    crowd = [int(live[block.first : block.last + 1].max()) for block in blocks]
    peak = max([1, *crowd])
    keys: tuple[Callable[[int], tuple[int, ...]], ...] = (
        lambda i: (-blocks[i].bytes, blocks[i].first),
        lambda i: (-blocks[i].bytes, blocks[i].first - blocks[i].last),
        lambda i: (-crowd[i], -blocks[i].bytes, blocks[i].first - blocks[i].last),
        lambda i: (-crowd[i] * 20 // peak, -blocks[i].bytes, blocks[i].first - blocks[i].last),
        lambda i: (-crowd[i], blocks[i].first - blocks[i].last, -blocks[i].bytes),
    )
    return [sorted(range(len(blocks)), key=key) for key in keys]


def _improved(blocks: Sequence[Block], enough: float) -> Sequence[int]:
    """The order of the best packing of several rounds, of which the first places the blocks as they are given."""
    random, order, placement = Random(0), list(range(len(blocks))), Placement(blocks)
    packing = placement.place(order)
    assert packing is not None, "there is no limit"
    for _ in range(min(_ROUNDS, _PLACEMENTS // max(len(blocks), 1))):
        if packing.bytes <= enough:
            break
        changed = _changed(blocks, order, packing, random)
        found = placement.place(changed, packing.bytes, order, packing.offsets)
        if found is not None:
            order, packing = changed, found
    return order


def _changed(blocks: Sequence[Block], order: Sequence[int], packing: Packing, random: Random) -> list[int]:
    """The order with the blocks on top at the front, or one of them farther ahead and two others swapped."""
    top = [i for i in order if packing.offsets[i] + blocks[i].bytes == packing.bytes]
    if random.random() < _TO_FRONT:
        return [*top, *(i for i in order if i not in top)]
    changed = list(order)
    at = changed.index(random.choice(top))
    changed.insert(random.randint(0, at), changed.pop(at))
    one, other = random.randrange(len(changed)), random.randrange(len(changed))
    changed[one], changed[other] = changed[other], changed[one]
    return changed
