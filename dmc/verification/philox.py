"""The random bits of `dmc.importer.composites.philox`, in numpy.

Each block is computed once, for all elements that share it, in memory that stays in the cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dmc.importer.composites.philox import MULTIPLIERS, ROUNDS, WEYL, group_of

Words = NDArray[np.uint64]

# Philox blocks computed together: their words fit the cache of a core.
BLOCKS = 1 << 14
_BLOCKS_OF_GROUP, _WORDS_OF_BLOCK = 4, 4
_MASK, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_MULTIPLIERS = tuple(map(np.uint64, MULTIPLIERS))


def uniform_bits(shape: Sequence[int], seed: int, draw: int, bits: int = 16) -> NDArray[np.uint16] | NDArray[np.uint8]:
    """16 or 8 bits per element of `shape`. seed, draw: of 64 bits, signed or not."""
    *_, columns = shape or (1,)
    rows, per_row = math.prod(shape[:-1]), -(-columns // group_of(bits))
    groups = rows * per_row
    # Little-endian, so that the low half of a word comes first.
    words = np.empty((groups, _WORDS_OF_BLOCK, _BLOCKS_OF_GROUP), "<u4")
    step = BLOCKS // _BLOCKS_OF_GROUP
    for first in range(0, groups, step):
        part = words[first : first + step]
        blocks = _words(first * _BLOCKS_OF_GROUP, len(part) * _BLOCKS_OF_GROUP, seed, draw)
        for word, each in enumerate(blocks):
            part[:, word] = each.reshape(-1, _BLOCKS_OF_GROUP)
    # [group, word, block, pair, neighbour]: of each word, the pairs follow each other by blocks.
    numbers = words.view("<u2" if bits == 16 else "u1").reshape(groups, 4, 4, 16 // bits, 2).swapaxes(2, 3)
    return numbers.reshape(rows, per_row * group_of(bits))[:, :columns].reshape(tuple(shape))


def _words(first: int, count: int, seed: int, draw: int) -> tuple[Words, Words, Words, Words]:
    """The four words of each of `count` blocks, each in 64 bits, as products require."""
    block = np.arange(first, first + count, dtype=np.uint64)
    a, b = _halves(block)
    c, d = _halves(np.full(1, draw & 2**64 - 1, np.uint64))
    for k0, k1 in _keys(seed):
        low0, high0 = _halves(a * _MULTIPLIERS[0])
        low1, high1 = _halves(c * _MULTIPLIERS[1])
        a, b, c, d = high1 ^ (b ^ k0), low1, high0 ^ (d ^ k1), low0
    return a, b, c, d


def _keys(seed: int) -> Iterator[tuple[np.uint64, np.uint64]]:
    for turn in range(ROUNDS):
        low, high = (half + turn * weyl for half, weyl in zip((seed, seed >> 32), WEYL, strict=True))
        yield np.uint64(low & 0xFFFFFFFF), np.uint64(high & 0xFFFFFFFF)


def _halves(words: Words) -> tuple[Words, Words]:
    """The low and high 32 bits of each."""
    return words & _MASK, words >> _HALF
