"""Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as
1, 2, 3" (SC 2011, section 4.3): a block of four 32-bit words is a pure function of a counter and a key.

Words are kept in int64 tensors, so that every operation exists on every backend.
"""

from __future__ import annotations

import torch
from torch import Tensor

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
ROUNDS = 10

Words = tuple[Tensor, Tensor, Tensor, Tensor]


def philox4x32(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Four words in [0, 2³²) for each counter; all tensors int64 and broadcastable to one shape."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        low0, high0 = _multiply(a, MULTIPLIERS[0])
        low1, high1 = _multiply(c, MULTIPLIERS[1])
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
        k0, k1 = (k0 + WEYL[0]) & _MASK, (k1 + WEYL[1]) & _MASK
    return a, b, c, d


def uniform_words(shape: list[int], seed: Tensor, draw: Tensor) -> Tensor:
    """One 32-bit word per element of `shape`, int64: word i mod 4 of block i div 4, i the row-major element index.

    `seed` and `draw` are int64 scalars: the key is the seed, the counter is (block's two halves, draw's two halves).
    An element's word depends on its global index alone, so it is the same however the tensor is split.
    """
    index = _row_major_index(shape, seed.device)
    block = index >> 2
    words = philox4x32(
        (block & _MASK, (block >> 32) & _MASK, draw & _MASK, (draw >> 32) & _MASK),
        (seed & _MASK, (seed >> 32) & _MASK),
    )
    lane = index & 3
    first = torch.where(lane == 0, words[0], words[1])
    second = torch.where(lane == 2, words[2], words[3])
    return torch.where(lane < 2, first, second)


def _multiply(word: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """The low and high halves of a 32 × 32 bit product. In int64 it may wrap, but its 64 bits are right."""
    product = word * multiplier
    return product & _MASK, (product >> 32) & _MASK


def _row_major_index(shape: list[int], device: torch.device) -> Tensor:
    # A sum of broadcast ranges, one per dimension: fuses into its consumer, where a reshaped range may not.
    index = torch.zeros([1] * len(shape), dtype=torch.int64, device=device)
    stride = 1
    for dim in reversed(range(len(shape))):
        view = [1] * len(shape)
        view[dim] = shape[dim]
        index = index + torch.arange(shape[dim], dtype=torch.int64, device=device).view(view) * stride
        stride *= shape[dim]
    return index
