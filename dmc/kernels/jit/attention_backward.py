"""Flash attention, backward (Dao et al., 2022, algorithm 4), without atomics: gradients of rows, then of columns.

Both launches recompute the probabilities from the log-sum-exp of rows. The first stores two numbers of each row:
sum(dout · out), and the log-sum-exp in units of log₂ e, [heads, tiles of 64 rows, 2, 64].
"""

import triton
import triton.language as tl

from dmc.kernels.jit.attention_tiles import (
    LOG2_E,
    add_up,
    head_of,
    kept_and_stored,
    kept_as_stored,
    keys,
    outputs,
    place_of,
    queries,
    shift_of,
    shown,
    store_rows,
    tile_of_rows,
    values,
)

# Rows whose numbers lie together.
TILE = tl.constexpr(64)


@triton.jit
def _numbers_of(numbers, index, row, c: tl.constexpr):
    """Where the first number of each row of a head is; the second is `TILE` behind it."""
    return numbers + index.to(tl.int64) * (2 * c.numbered) + row // TILE * (2 * TILE) + row % TILE


@triton.jit
def _read(pointer, row, c: tl.constexpr):
    """One number of each row that is numbered."""
    if c.numbered % c.block_rows == 0:
        return tl.load(pointer)
    return tl.load(pointer, mask=row < c.numbered, other=0.0)


@triton.jit
def rows(dout, q, k, v, bias, out, logsumexp, seed, draw, batches, heads, dq, numbers, mask, parts, c: tl.constexpr):
    """One tile of `dq` and `numbers`, with dropout of the mask, and if asked for the sums over rows of `dq`."""
    index, batch, head, first_row = tile_of_rows(c)
    place = place_of(index, batches, heads, c)
    row = first_row + tl.arange(0, c.block_rows)
    k_head = head_of(k, batch, head // c.groups, c.k_at[0], c.k_at[1])
    v_head = head_of(v, batch, head // c.groups, c.v_at[0], c.v_at[1])
    q_tile = queries(head_of(q, batch, head, c.q_at[0], c.q_at[1]), first_row, c)
    dout_tile = outputs(head_of(dout, batch, head, c.dout_at[0], c.dout_at[1]), first_row, c.dout_at[2], c)
    out_tile = outputs(head_of(out, batch, head, c.out_at[0], c.out_at[1]), first_row, c.out_at[2], c)
    sums = tl.sum(dout_tile.to(tl.float32) * out_tile.to(tl.float32), 1)
    scale = c.scale
    if c.dropout is not None:
        # What dropout keeps is scaled at the end, with all else that is summed.
        sums /= c.dropout.scale
        scale *= c.dropout.scale
    level = tl.load(logsumexp + index.to(tl.int64) * c.rows + row, mask=row < c.rows, other=float("inf")) * LOG2_E
    address = _numbers_of(numbers, index, row, c)
    tl.store(address, sums, mask=row < c.numbered)
    tl.store(address + TILE, level, mask=row < c.numbered)
    accumulator = tl.full([c.block_rows, c.block_width], 0.0, tl.float32)
    end = tl.minimum(first_row + c.block_rows, c.columns) if c.causal else c.columns
    full = (tl.minimum(first_row, end) if c.causal else end) // c.block_columns * c.block_columns
    for masked in tl.static_range(2):
        for first in tl.range(full if masked else 0, end if masked else full, c.block_columns):
            column = first + tl.arange(0, c.block_columns)
            k_tile = keys(k_head, first, c)
            scores = tl.dot(q_tile, k_tile.T, input_precision=c.precision)
            slope = tl.dot(dout_tile, values(v_head, first, c).T, input_precision=c.precision)
            shift = shift_of(bias, batch, head, row[:, None], column[None, :], c)
            scores = shown(scores, shift, row[:, None], column[None, :], masked, c)
            probability = tl.exp2(scores * c.factor - level[:, None])
            if c.dropout is not None:
                keep = kept_and_stored(mask, seed, draw, index, place, first_row, first, c)
                slope = tl.where(keep, slope, 0.0)
            dscores = (probability * (slope - sums[:, None])).to(k_tile.dtype)
            accumulator = tl.dot(dscores, k_tile, accumulator, input_precision=c.precision)
    dq_head = head_of(dq, batch, head, c.dq_at[0], c.dq_at[1])
    store_rows(dq_head, first_row, accumulator * scale, c.dq_at[2], c.rows, c.width)
    if c.sums is not None:
        _add_up_rows(parts, batch, head, first_row, accumulator * scale, dq.dtype.element_ty, c)


@triton.jit
def _add_up_rows(parts, batch, head, first_row, value, dtype: tl.constexpr, c: tl.constexpr):
    part = batch * ((c.rows + c.block_rows - 1) // c.block_rows) + first_row // c.block_rows
    add_up(parts, part, c.sums.dq + head * c.dq_at[1], first_row, value, dtype, c.width, c)


@triton.jit
def columns(dout, q, k, v, bias, seed, draw, batches, heads, numbers, mask, dk, dv, parts, c: tl.constexpr):
    """One tile of `dk` and `dv`: the sum over all rows of all heads that share it, in order; and their own sums."""
    tiles: tl.constexpr = (c.columns + c.block_columns - 1) // c.block_columns
    kv_heads: tl.constexpr = c.heads // c.groups
    first = tl.program_id(0) % tiles * c.block_columns
    batch, kv_head = tl.program_id(0) // tiles // kv_heads, tl.program_id(0) // tiles % kv_heads
    k_tile = keys(head_of(k, batch, kv_head, c.k_at[0], c.k_at[1]), first, c)
    v_tile = values(head_of(v, batch, kv_head, c.v_at[0], c.v_at[1]), first, c)
    dk_sum = tl.full([c.block_columns, c.block_width], 0.0, tl.float32)
    dv_sum = tl.full([c.block_columns, c.block_value], 0.0, tl.float32)
    for member in range(c.groups):
        index = batch * c.heads + kv_head * c.groups + member
        place = place_of(index, batches, heads, c)
        dk_sum, dv_sum = _of_head(
            dout, q, k_tile, v_tile, bias, seed, draw, numbers, mask, dk_sum, dv_sum, index, place, first, c
        )
    scale = c.scale
    if c.dropout is not None:
        dv_sum *= c.dropout.scale
        scale *= c.dropout.scale
    dk_head = head_of(dk, batch, kv_head, c.dk_at[0], c.dk_at[1])
    dv_head = head_of(dv, batch, kv_head, c.dv_at[0], c.dv_at[1])
    store_rows(dk_head, first, dk_sum * scale, c.dk_at[2], c.columns, c.width)
    store_rows(dv_head, first, dv_sum, c.dv_at[2], c.columns, c.value_width)
    if c.sums is not None:
        part = batch * tiles + first // c.block_columns
        dtype: tl.constexpr = dk.dtype.element_ty
        add_up(parts, part, c.sums.dk + kv_head * c.dk_at[1], first, dk_sum * scale, dtype, c.width, c)
        add_up(parts, part, c.sums.dv + kv_head * c.dv_at[1], first, dv_sum, dtype, c.value_width, c)


@triton.jit
def _of_head(dout, q, k_tile, v_tile, bias, seed, draw, numbers, mask, dk, dv, index, place, first, c: tl.constexpr):
    """The contribution of one head's rows to a tile of columns. Tiles are transposed: [columns, rows]."""
    batch, head = index // c.heads, index % c.heads
    q_head = head_of(q, batch, head, c.q_at[0], c.q_at[1])
    dout_head = head_of(dout, batch, head, c.dout_at[0], c.dout_at[1])
    column = first + tl.arange(0, c.block_columns)
    # Rows above the tile see none of it; rows beside it see a part; rows below see all.
    begin = first // c.block_rows * c.block_rows if c.causal else 0
    below = (first + c.block_columns + c.block_rows - 1) // c.block_rows * c.block_rows
    below = tl.minimum(below, c.rows) if c.causal else 0
    for whole in tl.static_range(2):
        for first_row in tl.range(below if whole else begin, c.rows if whole else below, c.block_rows):
            row = first_row + tl.arange(0, c.block_rows)
            q_tile, dout_tile = queries(q_head, first_row, c), outputs(dout_head, first_row, c.dout_at[2], c)
            scores = tl.dot(k_tile, q_tile.T, input_precision=c.precision)
            slope = tl.dot(v_tile, dout_tile.T, input_precision=c.precision)
            shift = shift_of(bias, batch, head, row[None, :], column[:, None], c)
            scores = shown(scores, shift, row[None, :], column[:, None], 1 - whole, c)
            address = _numbers_of(numbers, index, row, c)
            level = _read(address + TILE, row, c)
            probability = tl.exp2(scores * c.factor - level[None, :])
            sums = _read(address, row, c)
            if c.dropout is None:
                shared = probability
                dscores = probability * (slope - sums[None, :])
            else:
                keep = kept_as_stored(mask, seed, draw, index, place, first_row, first, c)
                shared = tl.where(keep, probability, 0.0)
                dscores = shared * slope - probability * sums[None, :]
            dv = tl.dot(shared.to(dout_tile.dtype), dout_tile, dv, input_precision=c.precision)
            dk = tl.dot(dscores.to(q_tile.dtype), q_tile, dk, input_precision=c.precision)
    return dk, dv
