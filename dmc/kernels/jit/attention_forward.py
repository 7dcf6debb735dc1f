"""Flash attention, forward (Dao, 2023): a program takes a tile of rows of one head, with online softmax over
columns."""

import triton
import triton.language as tl

from dmc.kernels.jit.attention_tiles import (
    LN_2,
    head_of,
    kept_tile,
    keys,
    place_of,
    queries,
    shift_of,
    shown,
    store_rows,
    tile_of_rows,
    values,
)


@triton.jit
def _online(scores, peak, total, accumulator, c: tl.constexpr):
    """Probabilities of a tile relative to the new maximum of each row, and earlier sums rescaled to that maximum."""
    new_peak = tl.maximum(peak, tl.max(scores, 1) * c.factor)
    # A fully masked row so far has no maximum to subtract.
    base = tl.where(new_peak == float("-inf"), 0.0, new_peak) if c.biased else new_peak
    probability = tl.exp2(scores * c.factor - base[:, None])
    decay = tl.exp2(peak - base)
    return probability, new_peak, total * decay + tl.sum(probability, 1), accumulator * decay[:, None]


@triton.jit
def forward(q, k, v, bias, seed, draw, batches, heads, out, logsumexp, c: tl.constexpr):
    """One tile of `out` and `logsumexp`."""
    index, batch, head, first_row = tile_of_rows(c)
    place = place_of(index, batches, heads, c)
    row = first_row + tl.arange(0, c.block_rows)
    k_head = head_of(k, batch, head // c.groups, c.k_at[0], c.k_at[1])
    v_head = head_of(v, batch, head // c.groups, c.v_at[0], c.v_at[1])
    q_tile = queries(head_of(q, batch, head, c.q_at[0], c.q_at[1]), first_row, c)
    peak = tl.full([c.block_rows], float("-inf"), tl.float32)
    total = tl.full([c.block_rows], 0.0, tl.float32)
    accumulator = tl.full([c.block_rows, c.block_value], 0.0, tl.float32)
    end = tl.minimum(first_row + c.block_rows, c.columns) if c.causal else c.columns
    # Tiles fully visible to all rows need no mask.
    full = (tl.minimum(first_row, end) if c.causal else end) // c.block_columns * c.block_columns
    # Zero, which the compiler does not know: of a constant it selects rounded values, in twice as many instructions.
    nothing = tl.program_id(2).to(tl.float32)
    for masked in tl.static_range(2):
        for first in tl.range(full if masked else 0, end if masked else full, c.block_columns):
            column = first + tl.arange(0, c.block_columns)
            scores = tl.dot(q_tile, keys(k_head, first, c).T, input_precision=c.precision)
            shift = shift_of(bias, batch, head, row[:, None], column[None, :], c)
            scores = shown(scores, shift, row[:, None], column[None, :], masked, c)
            probability, peak, total, accumulator = _online(scores, peak, total, accumulator, c)
            if c.dropout is not None:
                # What is kept is scaled at the end.
                probability = tl.where(kept_tile(seed, draw, place, first_row, first, c), probability, nothing)
            v_tile = values(v_head, first, c)
            accumulator = tl.dot(probability.to(v_tile.dtype), v_tile, accumulator, input_precision=c.precision)
    empty = total == 0.0
    scale = tl.where(empty, 0.0, (1.0 if c.dropout is None else c.dropout.scale) / tl.where(empty, 1.0, total))
    out_head = head_of(out, batch, head, c.out_at[0], c.out_at[1])
    store_rows(out_head, first_row, accumulator * scale[:, None], c.out_at[2], c.rows, c.value_width)
    # Infinity makes the recomputed probabilities of a fully masked row zero.
    level = tl.where(empty, float("inf"), (peak + tl.log2(total)) * LN_2)
    tl.store(logsumexp + index.to(tl.int64) * c.rows + row, level, mask=row < c.rows)
