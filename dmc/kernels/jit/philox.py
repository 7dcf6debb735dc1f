"""Dropout masks by Philox4x32-10, bit for bit those of the composite `dropout`.

Element i of a tensor takes word i mod 4 of block i div 4, for the counter (block, draw) and the key seed.
"""

import triton
import triton.language as tl

FIRST_MULTIPLIER = tl.constexpr(0xD2511F53)
SECOND_MULTIPLIER = tl.constexpr(0xCD9E8D57)
FIRST_WEYL = tl.constexpr(0x9E3779B9)
SECOND_WEYL = tl.constexpr(0xBB67AE85)


@triton.jit
def _halves(word, multiplier: tl.constexpr):
    # One wide multiplication gives both halves.
    product = word.to(tl.uint64) * multiplier
    return product.to(tl.uint32), (product >> 32).to(tl.uint32)


@triton.jit
def words(block, seed, draw, wide: tl.constexpr):
    """The four words, uint32, of each of `block`: int64 where blocks are `wide`, else uint32. Seed, draw: int64."""
    a = block.to(tl.uint32)
    b = (block >> 32).to(tl.uint32) if wide else tl.zeros_like(a)
    c = tl.zeros_like(a) + draw.to(tl.uint32)
    d = tl.zeros_like(a) + (draw >> 32).to(tl.uint32)
    first = seed.to(tl.uint32)
    second = (seed >> 32).to(tl.uint32)
    for _ in tl.static_range(10):
        low0, high0 = _halves(a, FIRST_MULTIPLIER)
        low1, high1 = _halves(c, SECOND_MULTIPLIER)
        a = high1 ^ b ^ first
        b = low1
        c = high0 ^ d ^ second
        d = low0
        first += FIRST_WEYL
        second += SECOND_WEYL
    return a, b, c, d


@triton.jit
def _kept_blocks(block, seed, draw, threshold: tl.constexpr, wide: tl.constexpr):
    """Whether to keep the elements of `block` [R, C]: [R, 4 C]."""
    a, b, c, d = words(block, seed, draw, wide)
    even = tl.join(a >= threshold, c >= threshold)
    odd = tl.join(b >= threshold, d >= threshold)
    return tl.join(even, odd).reshape(block.shape[0], 4 * block.shape[1])


@triton.jit
def _kept_elements(index, seed, draw, threshold: tl.constexpr, wide: tl.constexpr):
    """Whether to keep the elements at `index`: a block for each, for tensors whose rows may begin within a block."""
    block = index >> 2 if wide else (index >> 2).to(tl.uint32)
    a, b, c, d = words(block, seed, draw, wide)
    lane = index & 3
    word = tl.where(lane < 2, tl.where(lane == 0, a, b), tl.where(lane == 2, c, d))
    return word >= threshold


@triton.jit
def kept(first_row, first_column, seed, draw, rows: tl.constexpr, columns: tl.constexpr, dropout: tl.constexpr):
    """Whether to keep the elements of a tile of `rows` × `columns` of a matrix; `dropout` is a `Dropout`.

    `first_row` is int64, of all rows that the tensor has; `first_column` is a multiple of 4.
    """
    row = first_row + tl.arange(0, rows).to(tl.int64)
    if dropout.columns % 4 == 0:
        column = first_column // 4 + tl.arange(0, columns // 4)
        stride: tl.constexpr = dropout.columns // 4
        if dropout.wide:
            block = row[:, None] * stride + column[None, :]
        else:
            block = row.to(tl.uint32)[:, None] * stride + column.to(tl.uint32)[None, :]
        return _kept_blocks(block, seed, draw, dropout.threshold, dropout.wide)
    index = row[:, None] * dropout.columns + (first_column + tl.arange(0, columns))[None, :]
    return _kept_elements(index, seed, draw, dropout.threshold, dropout.wide)
