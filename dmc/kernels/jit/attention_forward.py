"""Flash attention, forward (Dao, 2023): a program takes a tile of rows of one head, and is online over columns."""

import triton
import triton.language as tl

from dmc.kernels.jit.attention_tiles import LN_2, biased, head_of, hidden, load_rows, store_rows
from dmc.kernels.jit.philox import kept


@triton.jit
def _online(scores, peak, total, accumulator, c: tl.constexpr):
    """Probabilities of a tile relative to the new peak of each row, and what was summed before brought to that peak."""
    new_peak = tl.maximum(peak, tl.max(scores, 1) * c.factor)
    # A row that has seen nothing yet has no peak to subtract.
    base = tl.where(new_peak == float("-inf"), 0.0, new_peak) if c.biased else new_peak
    probability = tl.exp2(scores * c.factor - base[:, None])
    decay = tl.exp2(peak - base)
    return probability, new_peak, total * decay + tl.sum(probability, 1), accumulator * decay[:, None]


@triton.jit
def forward(q, k, v, bias, seed, draw, out, logsumexp, c: tl.constexpr):
    """One tile of `out` and `logsumexp`. The tiles with most columns come first within a head."""
    tiles: tl.constexpr = (c.rows + c.block_rows - 1) // c.block_rows
    tile = tiles - 1 - tl.program_id(0) % tiles
    index = tl.program_id(0) // tiles
    batch, head = index // c.heads, index % c.heads
    first_row = tile * c.block_rows
    row = first_row + tl.arange(0, c.block_rows)
    q_tile = load_rows(
        head_of(q, batch, head, c.q_at[0], c.q_at[1]),
        first_row,
        c.block_rows,
        c.q_at[2],
        c.rows,
        c.width,
        c.block_width,
    )
    k_head, v_head = (
        head_of(k, batch, head // c.groups, c.k_at[0], c.k_at[1]),
        head_of(v, batch, head // c.groups, c.v_at[0], c.v_at[1]),
    )
    peak = tl.full([c.block_rows], float("-inf"), tl.float32)
    total = tl.full([c.block_rows], 0.0, tl.float32)
    accumulator = tl.full([c.block_rows, c.block_value], 0.0, tl.float32)
    end = tl.minimum(first_row + c.block_rows, c.columns) if c.causal else c.columns
    # Whole tiles need no mask.
    full = (tl.minimum(first_row, end) if c.causal else end) // c.block_columns * c.block_columns
    for part in tl.static_range(2):
        for first in tl.range(full if part else 0, end if part else full, c.block_columns):
            k_tile = load_rows(k_head, first, c.block_columns, c.k_at[2], c.columns, c.width, c.block_width)
            scores = tl.dot(q_tile, k_tile.T, input_precision=c.precision)
            column = first + tl.arange(0, c.block_columns)
            if c.biased:
                scores = biased(
                    scores, head_of(bias, batch, head, c.bias_at[0], c.bias_at[1]), row[:, None], column[None, :], c
                )
            if part:
                scores = hidden(scores, row[:, None], column[None, :], c)
            probability, peak, total, accumulator = _online(scores, peak, total, accumulator, c)
            if c.dropout is not None:
                keep = kept_tile(seed, draw, index, first_row, first, c)
                probability = tl.where(keep, probability, 0.0)
            v_tile = load_rows(v_head, first, c.block_columns, c.v_at[2], c.columns, c.value_width, c.block_value)
            accumulator = tl.dot(probability.to(v_tile.dtype), v_tile, accumulator, input_precision=c.precision)
    _finish(out, logsumexp, batch, head, index, first_row, peak, total, accumulator, c)


@triton.jit
def kept_tile(seed, draw, index, first_row, first_column, c: tl.constexpr):
    """Which probabilities of a tile of head `index` are kept."""
    row = index.to(tl.int64) * c.rows + first_row
    dropout: tl.constexpr = c.dropout
    return kept(row, first_column, tl.load(seed), tl.load(draw), c.block_rows, c.block_columns, dropout)


@triton.jit
def _finish(out, logsumexp, batch, head, index, first_row, peak, total, accumulator, c: tl.constexpr):
    empty = total == 0.0
    scale = tl.where(empty, 0.0, 1.0 / tl.where(empty, 1.0, total))
    if c.dropout is not None:
        scale *= c.dropout.scale
    result = accumulator * scale[:, None]
    store_rows(
        head_of(out, batch, head, c.out_at[0], c.out_at[1]), first_row, result, c.out_at[2], c.rows, c.value_width
    )
    # Infinity makes the recomputed probabilities of an empty row zero.
    value = tl.where(empty, float("inf"), (peak + tl.log2(total)) * LN_2)
    row = first_row + tl.arange(0, c.block_rows)
    tl.store(logsumexp + index.to(tl.int64) * c.rows + row, value, mask=row < c.rows)
