"""Flash attention, backward (Dao et al., 2022, algorithm 4), without atomics: gradients of rows, then of columns.

Both launches recompute the probabilities from the log-sum-exp of rows. The first leaves sum(dout · out) of each row.
"""

import triton
import triton.language as tl

from dmc.kernels.jit.attention_forward import kept_tile
from dmc.kernels.jit.attention_tiles import LOG2_E, biased, head_of, hidden, load_rows, store_rows


@triton.jit
def rows(dout, q, k, v, bias, out, logsumexp, seed, draw, dq, delta, c: tl.constexpr):
    """One tile of `dq`, and of `delta` f32 [heads, rows]."""
    tiles: tl.constexpr = (c.rows + c.block_rows - 1) // c.block_rows
    tile = tiles - 1 - tl.program_id(0) % tiles
    index = tl.program_id(0) // tiles
    batch, head = index // c.heads, index % c.heads
    first_row = tile * c.block_rows
    row = first_row + tl.arange(0, c.block_rows)
    q_head, dout_head = (
        head_of(q, batch, head, c.q_at[0], c.q_at[1]),
        head_of(dout, batch, head, c.out_at[0], c.out_at[1]),
    )
    k_head, v_head = (
        head_of(k, batch, head // c.groups, c.k_at[0], c.k_at[1]),
        head_of(v, batch, head // c.groups, c.v_at[0], c.v_at[1]),
    )
    q_tile = load_rows(q_head, first_row, c.block_rows, c.q_at[2], c.rows, c.width, c.block_width)
    dout_tile = load_rows(dout_head, first_row, c.block_rows, c.out_at[2], c.rows, c.value_width, c.block_value)
    sums = _delta(out, delta, dout_tile, batch, head, index, first_row, c)
    level = _level(logsumexp, index, row, c)
    accumulator = tl.full([c.block_rows, c.block_width], 0.0, tl.float32)
    end = tl.minimum(first_row + c.block_rows, c.columns) if c.causal else c.columns
    full = (tl.minimum(first_row, end) if c.causal else end) // c.block_columns * c.block_columns
    for part in tl.static_range(2):
        for first in tl.range(full if part else 0, end if part else full, c.block_columns):
            k_tile = load_rows(k_head, first, c.block_columns, c.k_at[2], c.columns, c.width, c.block_width)
            v_tile = load_rows(v_head, first, c.block_columns, c.v_at[2], c.columns, c.value_width, c.block_value)
            scores = tl.dot(q_tile, k_tile.T, input_precision=c.precision)
            slope = tl.dot(dout_tile, v_tile.T, input_precision=c.precision)
            column = first + tl.arange(0, c.block_columns)
            if c.biased:
                scores = biased(
                    scores, head_of(bias, batch, head, c.bias_at[0], c.bias_at[1]), row[:, None], column[None, :], c
                )
            if part:
                scores = hidden(scores, row[:, None], column[None, :], c)
            probability = tl.exp2(scores * c.factor - level[:, None])
            if c.dropout is not None:
                slope = tl.where(kept_tile(seed, draw, index, first_row, first, c), slope * c.dropout.scale, 0.0)
            dscores = (probability * (slope - sums[:, None])).to(k_tile.dtype)
            accumulator = tl.dot(dscores, k_tile, accumulator, input_precision=c.precision)
    store_rows(
        head_of(dq, batch, head, c.q_at[0], c.q_at[1]), first_row, accumulator * c.scale, c.q_at[2], c.rows, c.width
    )


@triton.jit
def _level(logsumexp, index, row, c: tl.constexpr):
    """The log-sum-exp of rows in units of log₂ e; infinite beyond the last row, where probabilities are zero."""
    address = logsumexp + index.to(tl.int64) * c.rows + row
    return tl.load(address, mask=row < c.rows, other=float("inf")) * LOG2_E


@triton.jit
def _delta(out, delta, dout_tile, batch, head, index, first_row, c: tl.constexpr):
    out_head = head_of(out, batch, head, c.out_at[0], c.out_at[1])
    out_tile = load_rows(out_head, first_row, c.block_rows, c.out_at[2], c.rows, c.value_width, c.block_value)
    sums = tl.sum(dout_tile.to(tl.float32) * out_tile.to(tl.float32), 1)
    row = first_row + tl.arange(0, c.block_rows)
    tl.store(delta + index.to(tl.int64) * c.rows + row, sums, mask=row < c.rows)
    return sums


@triton.jit
def columns(dout, q, k, v, bias, logsumexp, seed, draw, delta, dk, dv, c: tl.constexpr):
    """One tile of `dk` and `dv`: the sum over all rows of all heads that share it, in order."""
    tiles: tl.constexpr = (c.columns + c.block_columns - 1) // c.block_columns
    kv_heads: tl.constexpr = c.heads // c.groups
    first = tl.program_id(0) % tiles * c.block_columns
    batch, kv_head = tl.program_id(0) // tiles // kv_heads, tl.program_id(0) // tiles % kv_heads
    k_tile = load_rows(
        head_of(k, batch, kv_head, c.k_at[0], c.k_at[1]),
        first,
        c.block_columns,
        c.k_at[2],
        c.columns,
        c.width,
        c.block_width,
    )
    v_tile = load_rows(
        head_of(v, batch, kv_head, c.v_at[0], c.v_at[1]),
        first,
        c.block_columns,
        c.v_at[2],
        c.columns,
        c.value_width,
        c.block_value,
    )
    dk_sum = tl.full([c.block_columns, c.block_width], 0.0, tl.float32)
    dv_sum = tl.full([c.block_columns, c.block_value], 0.0, tl.float32)
    for member in range(c.groups):
        dk_sum, dv_sum = _head_columns(
            dout,
            q,
            k_tile,
            v_tile,
            bias,
            logsumexp,
            seed,
            draw,
            delta,
            dk_sum,
            dv_sum,
            batch,
            kv_head * c.groups + member,
            first,
            c,
        )
    if c.dropout is not None:
        dv_sum *= c.dropout.scale
    store_rows(
        head_of(dk, batch, kv_head, c.k_at[0], c.k_at[1]), first, dk_sum * c.scale, c.k_at[2], c.columns, c.width
    )
    store_rows(head_of(dv, batch, kv_head, c.v_at[0], c.v_at[1]), first, dv_sum, c.v_at[2], c.columns, c.value_width)


@triton.jit
def _head_columns(
    dout, q, k_tile, v_tile, bias, logsumexp, seed, draw, delta, dk_sum, dv_sum, batch, head, first, c: tl.constexpr
):
    """What the rows of one head give to a tile of columns. Tiles are transposed: [columns, rows]."""
    index = batch * c.heads + head
    q_head, dout_head = (
        head_of(q, batch, head, c.q_at[0], c.q_at[1]),
        head_of(dout, batch, head, c.out_at[0], c.out_at[1]),
    )
    column = first + tl.arange(0, c.block_columns)
    # Rows above the tile see none of it; rows beside it see a part; rows below see all.
    begin = first // c.block_rows * c.block_rows if c.causal else 0
    beside = (first + c.block_columns + c.block_rows - 1) // c.block_rows * c.block_rows if c.causal else 0
    beside = tl.minimum(beside, c.rows) if c.causal else 0
    for part in tl.static_range(2):
        for first_row in tl.range(beside if part else begin, c.rows if part else beside, c.block_rows):
            row = first_row + tl.arange(0, c.block_rows)
            q_tile = load_rows(q_head, first_row, c.block_rows, c.q_at[2], c.rows, c.width, c.block_width)
            dout_tile = load_rows(dout_head, first_row, c.block_rows, c.out_at[2], c.rows, c.value_width, c.block_value)
            level = _level(logsumexp, index, row, c)
            sums = tl.load(delta + index.to(tl.int64) * c.rows + row, mask=row < c.rows, other=0.0)
            scores = tl.dot(k_tile, q_tile.T, input_precision=c.precision)
            slope = tl.dot(v_tile, dout_tile.T, input_precision=c.precision)
            if c.biased:
                scores = biased(
                    scores, head_of(bias, batch, head, c.bias_at[0], c.bias_at[1]), row[None, :], column[:, None], c
                )
            if c.causal and part == 0:
                scores = tl.where(column[:, None] <= row[None, :], scores, float("-inf"))
            probability = tl.exp2(scores * c.factor - level[None, :])
            kept_probability = probability
            if c.dropout is not None:
                keep = tl.trans(kept_tile(seed, draw, index, first_row, first, c))
                kept_probability = tl.where(keep, probability, 0.0)
                slope = tl.where(keep, slope * c.dropout.scale, 0.0)
            dv_sum = tl.dot(kept_probability.to(dout_tile.dtype), dout_tile, dv_sum, input_precision=c.precision)
            dscores = (probability * (slope - sums[None, :])).to(q_tile.dtype)
            dk_sum = tl.dot(dscores, q_tile, dk_sum, input_precision=c.precision)
    return dk_sum, dv_sum
