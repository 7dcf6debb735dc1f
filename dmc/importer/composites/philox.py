"""Philox4x32-7, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as
1, 2, 3" (SC 2011, section 4.3): a block of four 32-bit words is a pure function of a counter and a key.

Of its variants that pass every test of TestU01's BigCrush, the one with the fewest rounds (table 2).

Words are kept in int64 tensors, so that every operation exists on every backend.
"""

from __future__ import annotations

import torch
from torch import Tensor

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 7
_MASK = 0xFFFFFFFF

Words = tuple[Tensor, Tensor, Tensor, Tensor]


def philox4x32(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Four words in [0, 2³²) for each counter; all tensors int64 and broadcastable to one shape."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        low0, high0 = _multiply(a, MULTIPLIERS[0])
        low1, high1 = _multiply(c, MULTIPLIERS[1])
        # Masked, so that a kernel that reads its key from memory knows that a product of 32 by 32 bits is enough.
        a, b, c, d = (high1 ^ b ^ k0) & _MASK, low1, (high0 ^ d ^ k1) & _MASK, low0
        k0, k1 = (k0 + WEYL[0]) & _MASK, (k1 + WEYL[1]) & _MASK
    return a, b, c, d


def uniform_bits(shape: list[int], seed: Tensor, draw: Tensor, bits: int = 16) -> Tensor:
    """A number of 16 or 8 bits for each element of `shape`, int64; `seed` and `draw` are int64 scalars.

    The key is the seed, the counter is (block's two halves, draw's two halves). Of the elements of a row, which is the
    last dimension, each 32 share four blocks if they draw 16 bits, each 64 if they draw 8. Pair i of neighbours takes
    its bits of block i mod 4, in the order of the words, low bits first. Every row begins with new blocks. A thread
    that holds an accumulator of tensor cores has pairs that are eight elements apart: so it draws whole blocks. Bits
    depend on the global index alone, so they are the same however the tensor is split.
    """
    index = _index(shape, seed.device, group_of(bits))
    # A word has the bits of one pair, or of two.
    of_word = 3 if bits == 16 else 4
    block = (index >> (of_word + 2)) * 4 + ((index >> 1) & 3)
    words = philox4x32(
        (block & _MASK, (block >> 32) & _MASK, draw & _MASK, (draw >> 32) & _MASK),
        (seed & _MASK, (seed >> 32) & _MASK),
    )
    which = (index >> of_word) & 3
    first = torch.where(which == 0, words[0], words[1])
    second = torch.where(which == 2, words[2], words[3])
    word = torch.where(which < 2, first, second)
    if bits == 8:
        word = torch.where(((index >> 3) & 1) == 0, word & 0xFFFF, word >> 16)
    return torch.where((index & 1) == 0, word & ((1 << bits) - 1), word >> bits)


def group_of(bits: int) -> int:
    """How many elements in a row share whole blocks, which have 128 bits, four at a time."""
    return 4 * 128 // bits


def words_of_elements(shape: list[int], seed: Tensor, draw: Tensor) -> Words:
    """A block of its own for each element of `shape`; the key is the seed, the counter is (element's two halves, draw's
    two halves).
    """
    index = _index(shape, seed.device)
    return philox4x32(
        (index & _MASK, (index >> 32) & _MASK, draw & _MASK, (draw >> 32) & _MASK),
        (seed & _MASK, (seed >> 32) & _MASK),
    )


def _multiply(word: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """The low and high halves of a 32 × 32 bit product. In int64 it may wrap, but its 64 bits are right."""
    product = word * multiplier
    return product & _MASK, (product >> 32) & _MASK


def _index(shape: list[int], device: torch.device, group: int = 1) -> Tensor:
    """Row-major, of rows that are padded to whole groups."""
    # A sum of broadcast ranges, one per dimension: fuses into its consumer, where a reshaped range may not.
    index = torch.zeros([1] * len(shape), dtype=torch.int64, device=device)
    stride = 1
    for dim in reversed(range(len(shape))):
        view = [1] * len(shape)
        view[dim] = shape[dim]
        index = index + torch.arange(shape[dim], dtype=torch.int64, device=device).view(view) * stride
        stride *= shape[dim] if dim < len(shape) - 1 else -(-shape[dim] // group) * group
    return index
