"""Code shared by the attention kernels: tiles of operands, scores and masks.

`c` is an `AttentionShape`. Scores are in units of log₂ e, so that a probability is one `exp2`; without a bias they
still wait for `c.factor`, which is fused into what follows. `index` counts heads over the whole batch.
"""

import triton
import triton.language as tl

from dmc.kernels.jit.philox import blocks, expanded, kept, packed, spread, words_of

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def head_of(pointer, batch, head, batch_stride: tl.constexpr, head_stride: tl.constexpr):
    """The address of a head's first row."""
    return pointer + batch.to(tl.int64) * batch_stride + head.to(tl.int64) * head_stride


@triton.jit
def tile_of_rows(c: tl.constexpr):
    """The tile of rows of this program: index, batch, head and first row. Those with the most columns come first.

    Heads are taken from the last to the first: the product before wrote the last ones last, so that they are still in
    the cache, and the product behind reads the first ones first.
    """
    tiles: tl.constexpr = (c.rows + c.block_rows - 1) // c.block_rows
    tile = tiles - 1 - tl.program_id(0) % tiles
    index = (tl.num_programs(0) - 1 - tl.program_id(0)) // tiles
    return index, index // c.heads, index % c.heads, tile * c.block_rows


@triton.jit
def queries(q, first, c: tl.constexpr):
    """Rows of q, [block_rows, block_width]."""
    return _load(q, first, c.block_rows, c.q_at[2], c.rows, c.width, c.block_width)


@triton.jit
def keys(k, first, c: tl.constexpr):
    """Rows of k, [block_columns, block_width]."""
    return _load(k, first, c.block_columns, c.k_at[2], c.columns, c.width, c.block_width)


@triton.jit
def values(v, first, c: tl.constexpr):
    """Rows of v, [block_columns, block_value]."""
    return _load(v, first, c.block_columns, c.v_at[2], c.columns, c.value_width, c.block_value)


@triton.jit
def outputs(out, first, stride: tl.constexpr, c: tl.constexpr):
    """Rows of the result or of its gradient, [block_rows, block_value]."""
    return _load(out, first, c.block_rows, stride, c.rows, c.value_width, c.block_value)


@triton.jit
def _load(pointer, first, count: tl.constexpr, stride, limit: tl.constexpr, width: tl.constexpr, block: tl.constexpr):
    """Rows first … first + count - 1, [count, block]; zeros beyond row `limit` and beyond `width`."""
    row = first + tl.arange(0, count)
    column = tl.arange(0, block)
    address = pointer + row[:, None] * stride + column[None, :]
    if limit % count == 0 and width == block:
        return tl.load(address)
    return tl.load(address, mask=(row < limit)[:, None] & (column < width)[None, :], other=0.0)


@triton.jit
def store_rows(pointer, first, value, stride: tl.constexpr, limit: tl.constexpr, width: tl.constexpr):
    """Writes rows first … of a head, in its type."""
    row = first + tl.arange(0, value.shape[0])
    column = tl.arange(0, value.shape[1])
    address = pointer + row[:, None] * stride + column[None, :]
    inside = (row < limit)[:, None] & (column < width)[None, :]
    tl.store(address, value.to(pointer.dtype.element_ty), mask=inside)


@triton.jit
def add_up(parts, part, first_column, first_row, value, dtype: tl.constexpr, limit: tl.constexpr, c: tl.constexpr):
    """Stores the sums over the rows of a tile, as it is rounded to memory, in a row of `parts`, f32 [.., width].

    limit: the columns of the tile that are there.
    """
    row, column = first_row + tl.arange(0, value.shape[0]), tl.arange(0, value.shape[1])
    rounded = tl.where((row < c.columns)[:, None], value.to(dtype).to(tl.float32), 0.0)
    address = parts + part.to(tl.int64) * c.sums.width + first_column + column
    tl.store(address, tl.sum(rounded, 0), mask=column < limit)


@triton.jit
def shown(scores, shift, row, column, masked: tl.constexpr, c: tl.constexpr):
    """Scores with the shift of `shift_of`, which scales them, and -∞ where a row does not see a column.

    `row` and `column` broadcast to the tile; `masked`: some columns are hidden from some rows, or beyond the last.
    """
    if c.biased:
        scores = scores * c.scale_log2 + shift
    if masked and c.causal:
        scores = tl.where(column <= row, scores, float("-inf"))
    if masked and c.columns % c.block_columns != 0:
        scores = tl.where(column < c.columns, scores, float("-inf"))
    return scores


@triton.jit
def shift_of(bias, batch, head, row, column, c: tl.constexpr):
    """The bias of scores in units of log₂ e; without one, 0."""
    if c.biased:
        address = head_of(bias, batch, head, c.bias_at[0], c.bias_at[1]) + column * c.bias_at[3]
        inside = column < c.columns
        # Without a stride, one row is that of all: each value is loaded once.
        if c.bias_at[2] != 0:
            address += row.to(tl.int64) * c.bias_at[2]
            inside = (row < c.rows) & inside
        return tl.load(address, mask=inside, other=0.0).to(tl.float32) * LOG2_E
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        return 0.0


@triton.jit
def place_of(index, batches, heads, c: tl.constexpr):
    """Which head of the whole, int64, a head is. For the whole itself, `batches` and `heads` are not read."""
    if c.whole_heads == 0:
        return index.to(tl.int64)
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        return tl.load(batches + index // c.heads) * c.whole_heads + tl.load(heads + index % c.heads)


@triton.jit
def kept_tile(seed, draw, place, first_row, first_column, c: tl.constexpr):
    """Which probabilities of a tile are kept, [block_rows, block_columns]; `place`: that of the head in the whole."""
    dropout: tl.constexpr = c.dropout
    return kept(place * c.rows + first_row, first_column, tl.load(seed), tl.load(draw), dropout)


@triton.jit
def _mask_of(mask, index, c: tl.constexpr):
    """Where the packed bits of a head begin: for each column of blocks 8 or 16 a row."""
    return mask + index.to(tl.int64) * (c.dropout.blocks * c.rows)


@triton.jit
def kept_and_stored(mask, seed, draw, index, place, first_row, first_column, c: tl.constexpr):
    """`kept_tile`; its packed bits are stored in `mask`, if requested."""
    if c.stored:
        dropout: tl.constexpr = c.dropout
        row, block = blocks(dropout)
        row, block = first_row + row, first_column // dropout.lanes + block
        x, y, z, w = words_of(place * c.rows + row, block, tl.load(seed), tl.load(draw), dropout)
        inside = (row < c.rows) & (block < dropout.blocks)
        bits = packed(x, y, z, w, dropout).to(mask.dtype.element_ty)
        tl.store(_mask_of(mask, index, c) + block * c.rows + row, bits, mask=inside)
        return spread(x, y, z, w, dropout)
    else:  # noqa: RET505 Triton compiles what is behind a return: tiles that are not stored may have no whole blocks.
        return kept_tile(seed, draw, place, first_row, first_column, c)


@triton.jit
def kept_as_stored(mask, seed, draw, index, place, first_row, first_column, c: tl.constexpr):
    """`kept_tile` transposed, from what `kept_and_stored` left."""
    if not c.stored:
        return kept_tile(seed, draw, place, first_row, first_column, c).T
    else:  # noqa: RET505
        dropout: tl.constexpr = c.dropout
        row = first_row + tl.arange(0, c.block_rows)
        block = first_column // dropout.lanes + tl.arange(0, c.block_columns // dropout.lanes)
        address = _mask_of(mask, index, c) + block[:, None] * c.rows + row[None, :]
        if c.rows % c.block_rows == 0 and c.columns % c.block_columns == 0:
            return expanded(tl.load(address), dropout)
        else:  # noqa: RET505
            inside = (block < dropout.blocks)[:, None] & (row < c.rows)[None, :]
            return expanded(tl.load(address, mask=inside, other=0), dropout)
