"""What the kernels of attention share: tiles of operands, scores and what they hide.

`c` is an `AttentionShape`. Scores are in units of log₂ e, so that a probability is one `exp2`; without a bias they
still wait for `c.factor`, which is fused into what follows.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def head_of(pointer, batch, head, batch_stride: tl.constexpr, head_stride: tl.constexpr):
    """Where the rows of a head begin."""
    return pointer + batch.to(tl.int64) * batch_stride + head.to(tl.int64) * head_stride


@triton.jit
def load_rows(
    pointer,
    first,
    count: tl.constexpr,
    stride: tl.constexpr,
    limit: tl.constexpr,
    width: tl.constexpr,
    block: tl.constexpr,
):
    """Rows first … first + count - 1, [count, block]; zeros beyond row `limit` and beyond `width`."""
    row = first + tl.arange(0, count)
    column = tl.arange(0, block)
    address = pointer + row[:, None] * stride + column[None, :]
    if limit % count == 0 and width == block:
        return tl.load(address)
    return tl.load(address, mask=(row < limit)[:, None] & (column < width)[None, :], other=0.0)


@triton.jit
def store_rows(pointer, first, value, stride: tl.constexpr, limit: tl.constexpr, width: tl.constexpr):
    """The inverse of `load_rows`."""
    row = first + tl.arange(0, value.shape[0])
    column = tl.arange(0, value.shape[1])
    address = pointer + row[:, None] * stride + column[None, :]
    inside = (row < limit)[:, None] & (column < width)[None, :]
    tl.store(address, value.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def biased(scores, bias, row, column, c: tl.constexpr):
    """Scaled scores with the bias added; `row` and `column` broadcast to the tile."""
    address = bias + row.to(tl.int64) * c.bias_at[2] + column * c.bias_at[3]
    if c.bias_at[2] == 0:
        # One row for all: each value is loaded once.
        address = bias + column * c.bias_at[3]
        added = tl.load(address, mask=column < c.columns, other=0.0)
    else:
        added = tl.load(address, mask=(row < c.rows) & (column < c.columns), other=0.0)
    return scores * c.scale_log2 + added.to(tl.float32) * LOG2_E


@triton.jit
def hidden(scores, row, column, c: tl.constexpr):
    """Scores with -∞ where a row does not see a column, and beyond the last column."""
    if c.causal:
        scores = tl.where(column <= row, scores, float("-inf"))
    if c.columns % c.block_columns != 0:
        scores = tl.where(column < c.columns, scores, float("-inf"))
    return scores
