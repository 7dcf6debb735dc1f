"""Flash attention, backward, in Gluon: the gradient of q, as `attention_backward.rows`, with tiles that TMA copies
ahead and products that run while threads compute.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from dmc.kernels.jit.ahead_draws import drawn, kept, stored
from dmc.kernels.jit.ahead_tiles import (
    LAYOUT,
    TILE,
    add_up,
    after,
    begun,
    columns_from,
    copy,
    copy_first,
    factor,
    rows_from,
    steps_of,
    store,
    stores_done,
    sum_of,
    thread_barrier,
    tile,
)
from dmc.kernels.jit.attention_tiles import LOG2_E, place_of, shift_of, shown, tile_of_rows
from dmc.kernels.jit.shared_memory import barriers_of, rooms_of

jit = gluon.jit


@jit
def _numbers(dout_room, out_room, logsumexp, numbers, c: gl.constexpr):
    """Of each row, sum(dout · out), and the log-sum-exp in units of log₂ e; both are stored for the second launch."""
    index, _, _, first_row = tile_of_rows(c)
    row = rows_from(first_row)
    slopes = tile(dout_room, 0).load(LAYOUT).to(gl.float32) * tile(out_room, 0).load(LAYOUT).to(gl.float32)
    sums = gl.sum(slopes, 1)
    if c.dropout is not None:
        # What dropout keeps is scaled at the end, with all else that is summed.
        sums /= c.dropout.scale
    place = logsumexp + index.to(gl.int64) * c.rows + row
    level = gl.load(place, mask=row < c.rows, other=float("inf")) * LOG2_E
    address = numbers + (index.to(gl.int64) * c.numbered + first_row) * 2 + rows_from(0)
    gl.store(address, sums)
    gl.store(address + TILE, level)
    return sums, level


@jit
def _slope(slope, mask, seed, draw, first_draw, step, c: gl.constexpr):
    """The gradient of probabilities, when it is there, and 0 where dropout drops them; stores which it keeps."""
    if c.dropout is None:
        return warpgroup_mma_wait(0, deps=(slope,))
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        index, _, _, first_row = tile_of_rows(c)
        words = drawn(seed, draw, first_draw, step * TILE, c)
        stored(mask, words, index, first_row, step * TILE, c)
        slope = warpgroup_mma_wait(0, deps=(slope,))
        return gl.where(kept(words, c), slope, 0.0)


@jit
def rows(dout, q, k, v, bias, out, logsumexp, seed, draw, batches, heads, dq, numbers, mask, parts, c: gl.constexpr):
    """One tile of `dq`, of `numbers`, f32 [heads, tiles, 2, 64], with dropout of the mask, and of sums over rows."""
    index, batch, head, first_row = tile_of_rows(c)
    first_draw = place_of(index, batches, heads, c) * c.rows + first_row
    steps, full = steps_of(first_row, c)
    q_room, dout_room, out_room = rooms_of(q, 1), rooms_of(dout, 1), rooms_of(out, 1)
    rooms = (rooms_of(k, c.stages), rooms_of(v, c.stages))
    first, ready = barriers_of(1), barriers_of(c.stages)
    mbarrier.expect(first.index(0), 3 * q.block_type.nbytes)
    tma.async_copy_global_to_shared(q, [batch, head, first_row, 0], first.index(0), q_room.index(0))
    tma.async_copy_global_to_shared(dout, [batch, head, first_row, 0], first.index(0), dout_room.index(0))
    tma.async_copy_global_to_shared(out, [batch, head, first_row, 0], first.index(0), out_room.index(0))
    copy_first(k, v, rooms, ready, batch, head // c.groups, steps, c)
    row = rows_from(first_row)
    if c.dropout is not None:
        seed, draw = gl.load(seed), gl.load(draw)
    mbarrier.wait(first.index(0), 0)
    sums, level = _numbers(dout_room, out_room, logsumexp, numbers, c)
    accumulator = sum_of(tile(q_room, 0))
    slot, phase, before = 0, 0, c.stages - 1
    for masked in gl.static_range(2):
        for step in range(full if masked else 0, steps if masked else full):
            mbarrier.wait(ready.index(slot), phase)
            scores = begun(tile(q_room, 0), tile(rooms[0], slot))
            slope = begun(tile(dout_room, 0), tile(rooms[1], slot))
            column = columns_from(step * TILE)[None, :]
            shift = shift_of(bias, batch, head, row[:, None], column, c)
            scores, accumulator = warpgroup_mma_wait(1, deps=(scores, accumulator))
            # The last product of the step before is done, so its tiles may be replaced.
            thread_barrier()
            new = step + c.stages - 1
            copy(k, v, rooms, ready, before, batch, head // c.groups, new, (step > 0) & (new < steps))
            scores = shown(scores, shift, row[:, None], column, masked, c)
            probability = gl.exp2(scores * c.factor - level[:, None])
            slope = _slope(slope, mask, seed, draw, first_draw, step, c)
            keys = tile(rooms[0], slot)
            dscores = factor(probability * (slope - sums[:, None]), keys)
            accumulator = warpgroup_mma(dscores, keys, accumulator, is_async=True)
            slot, phase, before = after(slot, phase, c)
    _finish(dq, out_room.index(0), parts, warpgroup_mma_wait(0, deps=(accumulator,)), c)


@jit
def _finish(dq, room, parts, accumulator, c: gl.constexpr):
    """Stores the tile, and its sums."""
    _, batch, head, first_row = tile_of_rows(c)
    scale: gl.constexpr = c.scale if c.dropout is None else c.scale * c.dropout.scale
    value = accumulator * scale
    store(dq, room, batch, head, first_row, value)
    if c.sums is not None:
        part = (batch * c.numbered + first_row) // TILE
        add_up(parts, part, c.sums.dq + head * c.dq_at[1], first_row, value, dq.dtype, c.width, c)
    stores_done()
