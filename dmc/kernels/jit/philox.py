"""Dropout masks by Philox4x32, bit for bit those of the composite `dropout`.

A block has four words of 32 bits, a word serves one pair of neighbours, or two where an element draws 8 bits, and a
group of 32 or 64 elements in a row, whose first begin with new blocks, shares four blocks: pair i takes its bits of
block i mod 4, in the order of the words, low bits first. Pairs that are eight elements apart are what a thread holds of
the accumulator of a matrix product, so that it computes whole blocks, and nobody else does. `dropout` is a `Dropout`.
"""

import triton
import triton.language as tl

FIRST_MULTIPLIER = tl.constexpr(0xD2511F53)
SECOND_MULTIPLIER = tl.constexpr(0xCD9E8D57)
FIRST_WEYL = tl.constexpr(0x9E3779B9)
SECOND_WEYL = tl.constexpr(0xBB67AE85)
ROUNDS = tl.constexpr(7)


@triton.jit
def _halves(word, multiplier: tl.constexpr):
    # One wide multiplication gives both halves.
    product = word.to(tl.uint64) * multiplier
    return product.to(tl.uint32), (product >> 32).to(tl.uint32)


@triton.jit
def words(block, seed, draw, wide: tl.constexpr):
    """The four words, uint32, of each of `block`: int64 where blocks are `wide`, else uint32. Seed, draw: int64."""
    a = block.to(tl.uint32)
    # Not `zeros_like`, which Gluon lacks.
    nothing = a & 0
    b = (block >> 32).to(tl.uint32) if wide else nothing
    c = nothing + draw.to(tl.uint32)
    d = nothing + (draw >> 32).to(tl.uint32)
    first = seed.to(tl.uint32)
    second = (seed >> 32).to(tl.uint32)
    for _ in tl.static_range(ROUNDS):
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
def blocks(dropout: tl.constexpr):
    """Row and number in it of each block of a tile, 1-dimensional, in an order in which each thread meets its own.

    Threads are numbered along rows of the accumulator of a matrix product, four to a row, then eight rows, then warps.
    The order decides who computes a block, not what.
    """
    t: tl.constexpr = dropout.tile
    groups: tl.constexpr = dropout.groups
    place = tl.arange(0, t.rows * groups * 4)
    row = place // 4 % t.eight + place // (4 * t.eight) % t.warps * (t.pair * t.eight)
    across = place // (4 * t.eight * t.warps)
    row += across // groups % t.pair * t.eight + across // (groups * t.pair) * (t.warps * t.pair * t.eight)
    return row, place % 4 + across % groups * 4


@triton.jit
def words_of(row, block, seed, draw, dropout: tl.constexpr):
    """The words of blocks, by their row among all that the tensor has, and their number in it."""
    stride: tl.constexpr = dropout.blocks
    if dropout.wide:
        return words(row.to(tl.int64) * stride + block, seed, draw, True)
    return words(row.to(tl.uint32) * stride + block.to(tl.uint32), seed, draw, False)


@triton.jit
def spread(a, b, c, d, dropout: tl.constexpr):
    """Which elements of a tile are kept by the words of its `blocks`: booleans [rows, columns]."""
    t: tl.constexpr = dropout.tile
    pairs: tl.constexpr = dropout.pairs
    word = tl.join(tl.join(a, c), tl.join(b, d)).reshape(a.shape[0], 4)
    keep = is_kept(word[:, :, None], tl.arange(0, 2 * pairs)[None, None, :], dropout)
    # [rest, pair of rows, groups, warps, eight, block, word, pair, neighbour] in `blocks`.
    split = keep.reshape(t.rest, t.pair, dropout.groups, t.warps, t.eight, 4, 4, pairs, 2)
    return split.permute(0, 3, 1, 4, 2, 6, 7, 5, 8).reshape(t.rows, t.columns)


@triton.jit
def is_kept(word, number, dropout: tl.constexpr):
    """Whether the elements are kept that take these numbers of their words, counted from the low bits."""
    bits: tl.constexpr = dropout.bits
    lowest: tl.constexpr = dropout.threshold << (32 - bits)
    # Moved to the top, where lower bits do not decide: the last number is there already.
    return (word << (32 - bits - number * bits)) >= lowest


@triton.jit
def _packed_word(word, place: tl.constexpr, dropout: tl.constexpr):
    """A bit for each element that a word serves, from that of its first on."""
    count: tl.constexpr = 2 * dropout.pairs
    mask = word & 0
    for number in tl.static_range(count):
        mask |= is_kept(word, number, dropout).to(tl.uint32) << (place * count + number)
    return mask


@triton.jit
def packed(a, b, c, d, dropout: tl.constexpr):
    """Which elements are kept by the words of blocks, a bit for each: uint32, of the shape of the words."""
    low = _packed_word(a, 0, dropout) | _packed_word(b, 1, dropout)
    return low | _packed_word(c, 2, dropout) | _packed_word(d, 3, dropout)


@triton.jit
def expanded(bits, dropout: tl.constexpr):
    """The bits of `packed`, [blocks, rows], as booleans, [columns, rows]."""
    t: tl.constexpr = dropout.tile
    pair = tl.arange(0, 4 * dropout.pairs)[:, None, None, None]
    lane = 1 << (pair * 2 + tl.arange(0, 2)[None, None, :, None])
    return ((bits.to(tl.int32).reshape(dropout.groups, 1, 4, 1, t.rows) & lane[None]) != 0).reshape(t.columns, t.rows)


@triton.jit
def _kept_elements(index, seed, draw, dropout: tl.constexpr):
    """Whether to keep the elements at `index`, of padded rows: a block for each, for tiles that are no whole groups."""
    pairs: tl.constexpr = dropout.pairs
    block = index // (32 * pairs) * 4 + index // 2 % 4
    a, b, c, d = words(block if dropout.wide else block.to(tl.uint32), seed, draw, dropout.wide)
    which = (index // (8 * pairs) % 4).to(tl.int32)
    word = tl.where(which < 2, tl.where(which == 0, a, b), tl.where(which == 2, c, d))
    return is_kept(word, (index // 8 % pairs * 2 + index % 2).to(tl.int32), dropout)


@triton.jit
def kept(first_row, first_column, seed, draw, dropout: tl.constexpr):
    """Which elements of a tile are kept, [rows, columns]. `first_row` counts all rows that the tensor has."""
    if dropout.is_aligned:
        row, block = blocks(dropout)
        a, b, c, d = words_of(first_row + row, first_column // dropout.lanes + block, seed, draw, dropout)
        return spread(a, b, c, d, dropout)
    row = first_row + tl.arange(0, dropout.tile.rows).to(tl.int64)
    column = first_column + tl.arange(0, dropout.tile.columns)
    return _kept_elements(row[:, None] * (dropout.blocks * dropout.lanes) + column[None, :], seed, draw, dropout)
