"""Dropout masks by Philox4x32, bit for bit those of the composite `dropout`.

A block has 128 bits, for `lanes` elements of a tensor with 128 ÷ lanes bits each: element i takes lane
i mod lanes of block i div lanes, for the counter (block, draw) and the key seed. `dropout` is a `Dropout`.
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
def words(block, seed, draw, rounds: tl.constexpr, wide: tl.constexpr):
    """The four words, uint32, of each of `block`: int64 where blocks are `wide`, else uint32. Seed, draw: int64."""
    a = block.to(tl.uint32)
    b = (block >> 32).to(tl.uint32) if wide else tl.zeros_like(a)
    c = tl.zeros_like(a) + draw.to(tl.uint32)
    d = tl.zeros_like(a) + (draw >> 32).to(tl.uint32)
    first = seed.to(tl.uint32)
    second = (seed >> 32).to(tl.uint32)
    for _ in tl.static_range(rounds):
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
def _lane(word, lane: tl.constexpr, dropout: tl.constexpr):
    """Whether a lane of a word is kept."""
    bits: tl.constexpr = 128 // dropout.lanes
    return ((word >> (lane * bits)) & dropout.mask) >= dropout.threshold


@triton.jit
def _side_by_side(a, b, c, d):
    """Four tensors as the last two dimensions, 2 × 2, of one."""
    return tl.join(tl.join(a, c), tl.join(b, d))


@triton.jit
def _same_lane(a, b, c, d, lane: tl.constexpr, dropout: tl.constexpr):
    kept_a, kept_b = _lane(a, lane, dropout), _lane(b, lane, dropout)
    return _side_by_side(kept_a, kept_b, _lane(c, lane, dropout), _lane(d, lane, dropout))


@triton.jit
def spread(a, b, c, d, dropout: tl.constexpr):
    """Which elements are kept by the words of blocks, [rows, blocks]: booleans [rows, blocks · lanes].

    Joining each thread's results costs less than moving packed bits to their uses, where many threads would compute the
    same block.
    """
    first = _same_lane(a, b, c, d, 0, dropout)
    if dropout.lanes == 8:
        first = tl.join(first, _same_lane(a, b, c, d, 1, dropout))
    elif dropout.lanes == 16:
        second, third = _same_lane(a, b, c, d, 1, dropout), _same_lane(a, b, c, d, 2, dropout)
        first = _side_by_side(first, second, third, _same_lane(a, b, c, d, 3, dropout))
    return first.reshape(a.shape[0], a.shape[1] * dropout.lanes)


@triton.jit
def packed(a, b, c, d, dropout: tl.constexpr):
    """Which elements are kept by the words of blocks, a bit for each: uint32, of the shape of the words."""
    share: tl.constexpr = dropout.lanes // 4
    bits = tl.zeros_like(a)
    for lane in tl.static_range(share):
        bits |= _lane(a, lane, dropout).to(tl.uint32) << lane
        bits |= _lane(b, lane, dropout).to(tl.uint32) << (share + lane)
        bits |= _lane(c, lane, dropout).to(tl.uint32) << (2 * share + lane)
        bits |= _lane(d, lane, dropout).to(tl.uint32) << (3 * share + lane)
    return bits


@triton.jit
def words_of(first_row, first_column, seed, draw, rows: tl.constexpr, columns: tl.constexpr, dropout: tl.constexpr):
    """The words of the blocks of a tile of a matrix, each [rows, columns // lanes].

    `first_row` counts all rows of the tensor; rows and `first_column` begin at block boundaries.
    """
    row = first_row + tl.arange(0, rows).to(tl.int64)
    column = first_column // dropout.lanes + tl.arange(0, columns // dropout.lanes)
    stride: tl.constexpr = dropout.columns // dropout.lanes
    if dropout.wide:
        block = row[:, None] * stride + column[None, :]
    else:
        block = row.to(tl.uint32)[:, None] * stride + column.to(tl.uint32)[None, :]
    return words(block, seed, draw, dropout.rounds, dropout.wide)


@triton.jit
def expanded(bits, columns: tl.constexpr, dropout: tl.constexpr):
    """The bits of `packed` as booleans, [rows, columns]."""
    lane = tl.arange(0, dropout.lanes)
    each = (bits.to(tl.int32)[:, :, None] >> lane[None, None, :]) & 1
    return each.reshape(bits.shape[0], columns) != 0


@triton.jit
def _kept_elements(index, seed, draw, dropout: tl.constexpr):
    """Whether to keep the elements at `index`: a block for each, for tensors whose rows may begin within a block."""
    block = index // dropout.lanes
    a, b, c, d = words(block if dropout.wide else block.to(tl.uint32), seed, draw, dropout.rounds, dropout.wide)
    lane = (index % dropout.lanes).to(tl.int32)
    share: tl.constexpr = dropout.lanes // 4
    bits: tl.constexpr = 128 // dropout.lanes
    which = lane // share
    word = tl.where(which < 2, tl.where(which == 0, a, b), tl.where(which == 2, c, d))
    return ((word >> (lane % share * bits).to(tl.uint32)) & dropout.mask) >= dropout.threshold


@triton.jit
def kept(first_row, first_column, seed, draw, rows: tl.constexpr, columns: tl.constexpr, dropout: tl.constexpr):
    """Which elements of a tile of a matrix are kept, [rows, columns]; see `words_of`."""
    if dropout.columns % dropout.lanes == 0:
        a, b, c, d = words_of(first_row, first_column, seed, draw, rows, columns, dropout)
        return spread(a, b, c, d, dropout)
    row = first_row + tl.arange(0, rows).to(tl.int64)
    index = row[:, None] * dropout.columns + (first_column + tl.arange(0, columns))[None, :]
    return _kept_elements(index, seed, draw, dropout)
