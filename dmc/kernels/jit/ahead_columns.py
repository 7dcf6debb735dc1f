"""Flash attention, backward, in Gluon: the gradients of k and v, as `attention_backward.columns`, with tiles that TMA
copies ahead and products that run while threads compute.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait

from dmc.kernels.jit.ahead_draws import bytes_stored, kept_by
from dmc.kernels.jit.ahead_tiles import (
    LAYOUT,
    REGISTERS,
    TILE,
    WARPS,
    after,
    barriers_of,
    begun,
    columns_from,
    copy_own,
    factor,
    freed,
    rooms_of,
    rows_from,
    store,
    sum_of,
    tile,
)
from dmc.kernels.jit.attention_tiles import shift_of, shown

jit = gluon.jit


@jit
def _place(c: gl.constexpr):
    """The tiles of columns of this program: their batch, their head of k, and the first column; and the tiles of rows
    that they see, the first and how many. Rows above the tiles see none of them.
    """
    tiles: gl.constexpr = (c.columns + c.block_columns - 1) // c.block_columns
    kv_heads: gl.constexpr = c.heads // c.groups
    first = gl.program_id(0) % tiles * c.block_columns
    begin = first // TILE if c.causal else 0
    count = gl.maximum((c.rows + TILE - 1) // TILE - begin, 0)
    return gl.program_id(0) // tiles // kv_heads, gl.program_id(0) // tiles % kv_heads, first, begin, count


@jit
def _copy_step(given, slot, step, pred, c: gl.constexpr):
    """Begins to copy what a step reads: tiles of q and dout, and two numbers of each row."""
    matrices, _, _, rooms, barriers = given
    dout, q, _, _, numbers, _, _ = matrices
    batch, kv_head, _, begin, count = _place(c)
    head, row_tile = kv_head * c.groups, begin + step
    if c.groups > 1:
        head, row_tile = kv_head * c.groups + step // count, begin + step % count
    barrier = barriers[1].index(slot)
    mbarrier.expect(barrier, 2 * q.block_type.nbytes + numbers.block_type.nbytes, pred)
    tma.async_copy_global_to_shared(q, [batch, head, row_tile * TILE, 0], barrier, rooms[0].index(slot), pred)
    tma.async_copy_global_to_shared(dout, [batch, head, row_tile * TILE, 0], barrier, rooms[1].index(slot), pred)
    number = (batch * c.heads + head) * (c.numbered // TILE) + row_tile
    tma.async_copy_global_to_shared(numbers, [number, 0], barrier, rooms[2].index(slot), pred)


@jit
def _begin(given, c: gl.constexpr):
    """Begins to copy the teams' tiles of k and v, and what the first steps read."""
    matrices, _, own, _, barriers = given
    _, _, k, v, _, _, _ = matrices
    teams: gl.constexpr = c.block_columns // TILE
    stages: gl.constexpr = c.stages
    batch, kv_head, first, _, count = _place(c)
    mbarrier.expect(barriers[0].index(0), 2 * teams * k.block_type.nbytes)
    copy_own(k, own[0], barriers, batch, kv_head, first, teams)
    copy_own(v, own[1], barriers, batch, kv_head, first, teams)
    for i in gl.static_range(stages):
        _copy_step(given, i, i, i < count * c.groups, c)


@jit
def _copy_next(given, state, step, team: gl.constexpr, c: gl.constexpr):
    """Begins to copy what a step to come reads, when the products of the step before are done."""
    _, _, _, _, barriers = given
    _, _, _, _, count = _place(c)
    slot, new, is_new = freed(barriers, state, step, count * c.groups, team, c.block_columns // TILE, c)
    if team == 0:
        _copy_step(given, slot, new, is_new, c)


@jit
def _bits(mask, index, first_row, first, c: gl.constexpr):
    """What tells which elements dropout keeps."""
    if c.dropout is None:
        return 0
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        return bytes_stored(mask, index, first_row, first, c)


@jit
def _slopes(probability, slope, sums, bits, c: gl.constexpr):
    """The probabilities that dropout keeps, and the gradient of scores."""
    if c.dropout is None:
        return probability, probability * (slope - sums)
    else:  # noqa: RET505
        shared = gl.where(kept_by(bits), probability, 0.0)
        return shared, shared * slope - probability * sums


@jit
def _of_head(given, member, dk, dv, state, team: gl.constexpr, c: gl.constexpr):
    """The contribution of one head's rows to a team's tile of columns. Tiles are transposed: [columns, rows]."""
    _, pointers, own, rooms, barriers = given
    bias, mask = pointers
    batch, kv_head, first, begin, count = _place(c)
    head = kv_head * c.groups + member
    first += team * TILE
    column = rows_from(first)[:, None]
    # Rows beside the tiles see a part of them; rows below see all.
    beside = gl.minimum(c.block_columns // TILE, count) if c.causal else 0
    for whole in gl.static_range(2):
        for number in range(beside if whole else 0, count if whole else beside):
            first_row = (begin + number) * TILE
            slot = state[0]
            mbarrier.wait(barriers[1].index(slot), state[1])
            scores = begun(tile(own[0], team), tile(rooms[0], slot))
            bits = _bits(mask, batch * c.heads + head, first_row, first, c)
            dk, dv = warpgroup_mma_wait(1, deps=(dk, dv))
            # The last products of the step before are done.
            _copy_next(given, state, member * count + number, team, c)
            slope = begun(tile(own[1], team), tile(rooms[1], slot))
            row = columns_from(first_row)[None, :]
            shift = shift_of(bias, batch, head, row, column, c)
            scores = warpgroup_mma_wait(1, deps=(scores,))
            scores = shown(scores, shift, row, column, 1 - whole, c)
            probability = gl.exp2(scores * c.factor - rooms[2].index(slot).slice(TILE, TILE, 1).load(LAYOUT))
            sums = rooms[2].index(slot).slice(0, TILE, 1).load(LAYOUT)
            shared, dscores = _slopes(probability, warpgroup_mma_wait(0, deps=(slope,)), sums, bits, c)
            queries, slopes = tile(rooms[0], slot), tile(rooms[1], slot)
            dv = warpgroup_mma(factor(shared, slopes), slopes, dv, is_async=True)
            dk = warpgroup_mma(factor(dscores, queries), queries, dk, is_async=True)
            state = after(state, c)
    return dk, dv, state


@jit
def columns(dout, q, k, v, bias, numbers, mask, dk, dv, c: gl.constexpr):
    """A tile of `dk` and `dv` for each team: the sum over all rows of all heads that share it, in order."""
    teams: gl.constexpr = c.block_columns // TILE
    own = (rooms_of(k, teams), rooms_of(v, teams))
    rooms = (rooms_of(q, c.stages), rooms_of(dout, c.stages), rooms_of(numbers, c.stages))
    given = ((dout, q, k, v, numbers, dk, dv), (bias, mask), own, rooms, barriers_of(teams, c))
    _begin(given, c)
    if teams == 1:
        _compute(given, 0, c)
    else:
        gl.warp_specialize([(_compute, (given, 0, c)), (_compute, (given, 1, c))], WARPS, REGISTERS)


@jit
def _compute(given, team: gl.constexpr, c: gl.constexpr):
    """The tile of a team."""
    matrices, _, own, _, barriers = given
    _, _, _, _, _, dk, dv = matrices
    batch, kv_head, first, _, _ = _place(c)
    first += team * TILE
    dk_sum, dv_sum = sum_of(tile(own[0], team)), sum_of(tile(own[1], team))
    mbarrier.wait(barriers[0].index(0), 0)
    state = (0, 0, c.stages - 1)
    for member in range(c.groups):
        dk_sum, dv_sum, state = _of_head(given, member, dk_sum, dv_sum, state, team, c)
    dk_sum, dv_sum = warpgroup_mma_wait(0, deps=(dk_sum, dv_sum))
    scale: gl.constexpr = 1.0 if c.dropout is None else c.dropout.scale
    store(dk, own[0].index(team), batch, kv_head, first, dk_sum * (c.scale * scale))
    store(dv, own[1].index(team), batch, kv_head, first, dv_sum * scale)
