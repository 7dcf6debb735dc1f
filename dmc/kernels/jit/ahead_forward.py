"""Flash attention, forward, in Gluon: tiles are copied ahead by TMA, and a product runs while threads compute."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma_wait

from dmc.kernels.jit.ahead_draws import drawn, kept
from dmc.kernels.jit.ahead_tiles import (
    REGISTERS,
    ROWS,
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
    scaled,
    steps_of,
    store,
    sum_of,
    tile,
)
from dmc.kernels.jit.attention_tiles import LN_2, place_of, shift_of, shown, tile_of_rows

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
    """A tile of `out` and `logsumexp` for each team."""
    teams: gl.constexpr = c.block_rows // TILE
    matrices, pointers = (q, k, v, out), (bias, seed, draw, batches, heads, logsumexp)
    rooms = (rooms_of(q, teams), rooms_of(k, c.stages), rooms_of(v, c.stages))
    given = (matrices, pointers, rooms, barriers_of(teams, c))
    _begin(given, c)
    if teams == 1:
        _compute(given, 0, c)
    else:
        gl.warp_specialize([(_compute, (given, 0, c)), (_compute, (given, 1, c))], WARPS, REGISTERS)


@jit
def _begin(given, c: gl.constexpr):
    """Begins to copy the teams' tiles of q, and the first of k and v."""
    matrices, _, rooms, barriers = given
    q, k, v, _ = matrices
    teams: gl.constexpr = c.block_rows // TILE
    _, batch, head, first_row = tile_of_rows(c)
    mbarrier.expect(barriers[0].index(0), teams * q.block_type.nbytes)
    copy_own(q, rooms[0], barriers, batch, head, first_row, teams)
    copy_first(k, v, rooms[1:], barriers, batch, head // c.groups, most_steps(c), c)


@jit
def _compute(given, team: gl.constexpr, c: gl.constexpr):
    """The tile of a team."""
    matrices, pointers, rooms, barriers = given
    _, k, v, out = matrices
    bias, seed, draw, batches, heads, logsumexp = pointers
    teams: gl.constexpr = c.block_rows // TILE
    index, batch, head, first_row = rows_of(team, c)
    first_draw = place_of(index, batches, heads, c) * c.rows + first_row
    steps, full = steps_of(first_row, c)
    row = rows_from(first_row)
    peak = gl.full([TILE], float("-inf"), gl.float32, ROWS)
    total = gl.zeros([TILE], gl.float32, ROWS)
    if c.dropout is not None:
        seed, draw = gl.load(seed), gl.load(draw)
    mbarrier.wait(barriers[0].index(0), 0)
    accumulator = sum_of(tile(rooms[0], team), teams)
    state = (0, 0, c.stages - 1)
    for masked in gl.static_range(2):
        for step in range(full if masked else 0, steps if masked else full):
            slot = state[0]
            mbarrier.wait(barriers[1].index(slot), state[1])
            scores = begun(tile(rooms[0], team), tile(rooms[1], slot))
            column = columns_from(step * TILE)[None, :]
            shift = shift_of(bias, batch, head, row[:, None], column, c)
            scores, accumulator, words = _awaited(scores, accumulator, seed, draw, first_draw, step * TILE, c)
            # The product before is done as well.
            copy_next(k, v, rooms[1:], barriers, state, batch, head // c.groups, step, team, c)
            scores = shown(scores, shift, row[:, None], column, masked, c)
            probability, peak, total, decay = _online(scores, peak, total, c)
            values = tile(rooms[2], slot)
            weights = factor(_dropped(probability, words, c), values)
            accumulator = added(scaled(accumulator, decay), weights, values, step, teams)
            state = after(state, c)
    _finish(warpgroup_mma_wait(0, deps=(accumulator,)), peak, total, out, logsumexp, rooms[0], team, c)


@jit
def _finish(accumulator, peak, total, out, logsumexp, rooms, team: gl.constexpr, c: gl.constexpr):
    """Stores the results. A row that sees nothing gives zeros."""
    index, batch, head, first_row = rows_of(team, c)
    empty = total == 0.0
    scale = gl.where(empty, 0.0, (1.0 if c.dropout is None else c.dropout.scale) / gl.where(empty, 1.0, total))
    store(out, rooms.index(team), batch, head, first_row, scaled(accumulator, scale))
    # Infinity makes the recomputed probabilities of a fully masked row zero.
    level = gl.where(empty, float("inf"), (peak + gl.log2(total)) * LN_2)
    row = rows_from(first_row)
    gl.store(logsumexp + index.to(gl.int64) * c.rows + row, level, mask=row < c.rows)
