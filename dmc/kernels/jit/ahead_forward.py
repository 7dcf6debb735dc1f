"""Flash attention, forward, in Gluon: tiles are copied ahead by TMA, and a product runs while threads compute."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from dmc.kernels.jit.ahead_draws import drawn, kept
from dmc.kernels.jit.ahead_tiles import (
    ROWS,
    TILE,
    after,
    begun,
    columns_from,
    copy,
    copy_first,
    factor,
    rows_from,
    scaled,
    steps_of,
    store,
    stores_done,
    sum_of,
    thread_barrier,
    tile,
)
from dmc.kernels.jit.attention_tiles import LN_2, place_of, shift_of, shown, tile_of_rows
from dmc.kernels.jit.shared_memory import barriers_of, rooms_of

jit = gluon.jit


@jit
def _online(scores, peak, total, c: gl.constexpr):
    """Probabilities of a tile relative to the new maximum of each row, and what earlier sums are to be scaled by."""
    new_peak = gl.maximum(peak, gl.max(scores, 1) * c.factor)
    # A fully masked row so far has no maximum to subtract.
    base = gl.where(new_peak == float("-inf"), 0.0, new_peak) if c.biased else new_peak
    probability = gl.exp2(scores * c.factor - base[:, None])
    decay = gl.exp2(peak - base)
    return probability, new_peak, total * decay + gl.sum(probability, 1), decay


@jit
def _awaited(scores, accumulator, seed, draw, row, column, c: gl.constexpr):
    """The scores, the sum of the products before, and what dropout keeps by: it is drawn while the product runs."""
    if c.dropout is None:
        scores, accumulator = warpgroup_mma_wait(0, deps=(scores, accumulator))
        return scores, accumulator, ()
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        x, y, z, w = drawn(seed, draw, row, column, c)
        scores, accumulator, x, y, z, w = warpgroup_mma_wait(0, deps=(scores, accumulator, x, y, z, w))
        return scores, accumulator, (x, y, z, w)


@jit
def _dropped(probability, words, c: gl.constexpr):
    """Probabilities, of which dropout keeps some."""
    if c.dropout is not None:
        # Zero, which the compiler does not know: of a constant it selects rounded values, in twice as many
        # instructions.
        probability = gl.where(kept(words, c), probability, gl.program_id(2).to(gl.float32))
    return probability


@jit
def forward(q, k, v, bias, seed, draw, batches, heads, out, logsumexp, c: gl.constexpr):
    """One tile of `out` and `logsumexp`."""
    index, batch, head, first_row = tile_of_rows(c)
    first_draw = place_of(index, batches, heads, c) * c.rows + first_row
    steps, full = steps_of(first_row, c)
    q_room, rooms = rooms_of(q, 1), (rooms_of(k, c.stages), rooms_of(v, c.stages))
    first, ready = barriers_of(1), barriers_of(c.stages)
    mbarrier.expect(first.index(0), q.block_type.nbytes)
    tma.async_copy_global_to_shared(q, [batch, head, first_row, 0], first.index(0), q_room.index(0))
    copy_first(k, v, rooms, ready, batch, head // c.groups, steps, c)
    row = rows_from(first_row)
    peak = gl.full([TILE], float("-inf"), gl.float32, ROWS)
    total = gl.zeros([TILE], gl.float32, ROWS)
    accumulator = sum_of(tile(rooms[1], 0))
    if c.dropout is not None:
        seed, draw = gl.load(seed), gl.load(draw)
    mbarrier.wait(first.index(0), 0)
    slot, phase, before = 0, 0, c.stages - 1
    for masked in gl.static_range(2):
        for step in range(full if masked else 0, steps if masked else full):
            mbarrier.wait(ready.index(slot), phase)
            scores = begun(tile(q_room, 0), tile(rooms[0], slot))
            column = columns_from(step * TILE)[None, :]
            shift = shift_of(bias, batch, head, row[:, None], column, c)
            scores, accumulator, words = _awaited(scores, accumulator, seed, draw, first_draw, step * TILE, c)
            # The product before is done as well, so its tiles may be replaced.
            thread_barrier()
            new = step + c.stages - 1
            copy(k, v, rooms, ready, before, batch, head // c.groups, new, (step > 0) & (new < steps))
            scores = shown(scores, shift, row[:, None], column, masked, c)
            probability, peak, total, decay = _online(scores, peak, total, c)
            values = tile(rooms[1], slot)
            weights = factor(_dropped(probability, words, c), values)
            accumulator = warpgroup_mma(weights, values, scaled(accumulator, decay), is_async=True)
            slot, phase, before = after(slot, phase, c)
    _finish(warpgroup_mma_wait(0, deps=(accumulator,)), peak, total, out, logsumexp, q_room, c)


@jit
def _finish(accumulator, peak, total, out, logsumexp, room, c: gl.constexpr):
    """Stores the results. A row that sees nothing gives zeros."""
    index, batch, head, first_row = tile_of_rows(c)
    empty = total == 0.0
    scale = gl.where(empty, 0.0, (1.0 if c.dropout is None else c.dropout.scale) / gl.where(empty, 1.0, total))
    store(out, room.index(0), batch, head, first_row, scaled(accumulator, scale))
    # Infinity makes the recomputed probabilities of a fully masked row zero.
    level = gl.where(empty, float("inf"), (peak + gl.log2(total)) * LN_2)
    row = rows_from(first_row)
    gl.store(logsumexp + index.to(gl.int64) * c.rows + row, level, mask=row < c.rows)
    stores_done()
