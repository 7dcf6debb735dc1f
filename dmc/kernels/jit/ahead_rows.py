"""Flash attention, backward, in Gluon: the gradient of q, as `attention_backward.rows`, with tiles that TMA copies
ahead and products that run while threads compute.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma_wait

from dmc.kernels.jit.ahead_draws import drawn, kept, stored
from dmc.kernels.jit.ahead_tiles import (
    LAYOUT,
    REGISTERS,
    TILE,
    WARPS,
    added,
    after,
    barriers_of,
    begun,
    columns_from,
    copy_first,
    copy_next,
    copy_own,
    factor,
    most_steps,
    rooms_of,
    rows_from,
    rows_of,
    steps_of,
    store,
    sum_of,
    tile,
)
from dmc.kernels.jit.attention_tiles import LOG2_E, place_of, shift_of, shown, tile_of_rows

jit = gluon.jit


@jit
def _numbers(dout, out, logsumexp, numbers, team: gl.constexpr, c: gl.constexpr):
    """Of each row, sum(dout · out), and the log-sum-exp in units of log₂ e; both are stored for the second launch."""
    index, _, _, first_row = rows_of(team, c)
    row = rows_from(first_row)
    sums = gl.sum(dout.load(LAYOUT).to(gl.float32) * out.load(LAYOUT).to(gl.float32), 1)
    if c.dropout is not None:
        # What dropout keeps is scaled at the end, with all else that is summed.
        sums /= c.dropout.scale
    place = logsumexp + index.to(gl.int64) * c.rows + row
    level = gl.load(place, mask=row < c.rows, other=float("inf")) * LOG2_E
    address = numbers + (index.to(gl.int64) * c.numbered + first_row) * 2 + rows_from(0)
    # Of two teams, one may have no rows.
    inside = True if c.block_rows == TILE else first_row < c.numbered
    gl.store(address, sums, mask=inside)
    gl.store(address + TILE, level, mask=inside)
    return sums, level


@jit
def _slope(slope, mask, seed, draw, first_draw, step, team: gl.constexpr, c: gl.constexpr):
    """The gradient of probabilities, when it is there, and 0 where dropout drops them; stores which it keeps."""
    if c.dropout is None:
        return warpgroup_mma_wait(0, deps=(slope,))
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        index, _, _, first_row = rows_of(team, c)
        words = drawn(seed, draw, first_draw, step * TILE, c)
        stored(mask, words, index, first_row, step * TILE, c)
        slope = warpgroup_mma_wait(0, deps=(slope,))
        return gl.where(kept(words, c), slope, 0.0)


@jit
def rows(dout, q, k, v, bias, out, logsumexp, seed, draw, batches, heads, dq, numbers, mask, c: gl.constexpr):
    """A tile of `dq` for each team, and of `numbers`, f32 [heads, tiles, 2, 64], and with dropout of the mask."""
    teams: gl.constexpr = c.block_rows // TILE
    matrices, pointers = (dout, q, k, v, out, dq), (bias, logsumexp, seed, draw, batches, heads, numbers, mask)
    own = (rooms_of(q, teams), rooms_of(dout, teams), rooms_of(out, teams))
    given = (matrices, pointers, own, (rooms_of(k, c.stages), rooms_of(v, c.stages)), barriers_of(teams, c))
    _begin(given, c)
    if teams == 1:
        _compute(given, 0, c)
    else:
        gl.warp_specialize([(_compute, (given, 0, c)), (_compute, (given, 1, c))], WARPS, REGISTERS)


@jit
def _begin(given, c: gl.constexpr):
    """Begins to copy the teams' tiles of q, dout and out, and the first of k and v."""
    matrices, _, own, rooms, barriers = given
    dout, q, k, v, out, _ = matrices
    teams: gl.constexpr = c.block_rows // TILE
    _, batch, head, first_row = tile_of_rows(c)
    mbarrier.expect(barriers[0].index(0), 3 * teams * q.block_type.nbytes)
    copy_own(q, own[0], barriers, batch, head, first_row, teams)
    copy_own(dout, own[1], barriers, batch, head, first_row, teams)
    copy_own(out, own[2], barriers, batch, head, first_row, teams)
    copy_first(k, v, rooms, barriers, batch, head // c.groups, most_steps(c), c)


@jit
def _compute(given, team: gl.constexpr, c: gl.constexpr):
    """The tile of a team."""
    matrices, pointers, own, rooms, barriers = given
    _, _, k, v, _, dq = matrices
    bias, logsumexp, seed, draw, batches, heads, numbers, mask = pointers
    teams: gl.constexpr = c.block_rows // TILE
    index, batch, head, first_row = rows_of(team, c)
    first_draw = place_of(index, batches, heads, c) * c.rows + first_row
    steps, full = steps_of(first_row, c)
    row = rows_from(first_row)
    if c.dropout is not None:
        seed, draw = gl.load(seed), gl.load(draw)
    mbarrier.wait(barriers[0].index(0), 0)
    sums, level = _numbers(tile(own[1], team), tile(own[2], team), logsumexp, numbers, team, c)
    accumulator = sum_of(tile(own[0], team), teams)
    state = (0, 0, c.stages - 1)
    for masked in gl.static_range(2):
        for step in range(full if masked else 0, steps if masked else full):
            slot = state[0]
            mbarrier.wait(barriers[1].index(slot), state[1])
            scores = begun(tile(own[0], team), tile(rooms[0], slot))
            slope = begun(tile(own[1], team), tile(rooms[1], slot))
            column = columns_from(step * TILE)[None, :]
            shift = shift_of(bias, batch, head, row[:, None], column, c)
            scores, accumulator = warpgroup_mma_wait(1, deps=(scores, accumulator))
            # The last product of the step before is done.
            copy_next(k, v, rooms, barriers, state, batch, head // c.groups, step, team, c)
            scores = shown(scores, shift, row[:, None], column, masked, c)
            probability = gl.exp2(scores * c.factor - level[:, None])
            slope = _slope(slope, mask, seed, draw, first_draw, step, team, c)
            keys = tile(rooms[0], slot)
            dscores = factor(probability * (slope - sums[:, None]), keys)
            accumulator = added(accumulator, dscores, keys, step, teams)
            state = after(state, c)
    scale: gl.constexpr = c.scale if c.dropout is None else c.scale * c.dropout.scale
    total = warpgroup_mma_wait(0, deps=(accumulator,)) * scale
    store(dq, own[2].index(team), batch, head, first_row, total)
