"""Flash attention, backward, in Gluon: the gradients of k and v, as `attention_backward.columns`, with tiles that TMA
copies ahead and products that run while threads compute.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from dmc.kernels.jit.ahead_draws import bits_stored, kept_by
from dmc.kernels.jit.ahead_tiles import (
    LAYOUT,
    TILE,
    add_up,
    after,
    begun,
    columns_from,
    factor,
    rows_from,
    store,
    stores_done,
    sum_of,
    thread_barrier,
    tile,
)
from dmc.kernels.jit.attention_tiles import shift_of, shown
from dmc.kernels.jit.shared_memory import barriers_of, rooms_of

jit = gluon.jit


@jit
def _place(c: gl.constexpr):
    """The tile of columns of this program: its batch, its head of k, and its number; and its tiles of rows, the first
    and how many. Rows above the tile see none of it.
    """
    tiles: gl.constexpr = (c.columns + TILE - 1) // TILE
    kv_heads: gl.constexpr = c.heads // c.groups
    number = gl.program_id(0) % tiles
    begin = number if c.causal else 0
    count = gl.maximum((c.rows + TILE - 1) // TILE - begin, 0)
    return gl.program_id(0) // tiles // kv_heads, gl.program_id(0) // tiles % kv_heads, number, begin, count


@jit
def _copy(matrices, rooms, ready, slot, step, pred, c: gl.constexpr):
    """Begins to copy what a step reads: tiles of q and dout, and two numbers of each row."""
    q, dout, numbers = matrices
    batch, kv_head, _, begin, count = _place(c)
    head, row_tile = kv_head * c.groups, begin + step
    if c.groups > 1:
        head, row_tile = kv_head * c.groups + step // count, begin + step % count
    barrier = ready.index(slot)
    mbarrier.expect(barrier, 2 * q.block_type.nbytes + numbers.block_type.nbytes, pred)
    tma.async_copy_global_to_shared(q, [batch, head, row_tile * TILE, 0], barrier, rooms[0].index(slot), pred)
    tma.async_copy_global_to_shared(dout, [batch, head, row_tile * TILE, 0], barrier, rooms[1].index(slot), pred)
    number = (batch * c.heads + head) * (c.numbered // TILE) + row_tile
    tma.async_copy_global_to_shared(numbers, [number, 0], barrier, rooms[2].index(slot), pred)


@jit
def _bits(mask, index, first_row, first, c: gl.constexpr):
    """What tells which elements dropout keeps."""
    if c.dropout is None:
        return 0
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        return bits_stored(mask, index, first_row, first, c)


@jit
def _slopes(probability, slope, sums, bits, c: gl.constexpr):
    """The probabilities that dropout keeps, and the gradient of scores."""
    if c.dropout is None:
        return probability, probability * (slope - sums)
    else:  # noqa: RET505
        shared = gl.where(kept_by(bits, c), probability, 0.0)
        return shared, shared * slope - probability * sums


@jit
def _of_head(matrices, fixed, rooms, ready, bias, mask, member, dk, dv, slot, phase, before, c: gl.constexpr):
    """The contribution of one head's rows to a tile of columns. Tiles are transposed: [columns, rows]."""
    batch, kv_head, column_tile, begin, count = _place(c)
    head = kv_head * c.groups + member
    column = rows_from(column_tile * TILE)[:, None]
    # Rows beside the tile see a part of it; rows below see all.
    beside = gl.minimum(1, count) if c.causal else 0
    for whole in gl.static_range(2):
        for number in range(beside if whole else 0, count if whole else beside):
            first_row = (begin + number) * TILE
            mbarrier.wait(ready.index(slot), phase)
            scores = begun(tile(fixed[0], 0), tile(rooms[0], slot))
            bits = _bits(mask, batch * c.heads + head, first_row, column_tile * TILE, c)
            dk, dv = warpgroup_mma_wait(1, deps=(dk, dv))
            # The last products of the step before are done, so their tiles may be replaced.
            thread_barrier()
            step = member * count + number
            new = step + c.stages - 1
            _copy(matrices, rooms, ready, before, new, (step > 0) & (new < count * c.groups), c)
            slope = begun(tile(fixed[1], 0), tile(rooms[1], slot))
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
            slot, phase, before = after(slot, phase, c)
    return dk, dv, slot, phase, before


@jit
def columns(dout, q, k, v, bias, numbers, mask, dk, dv, parts, c: gl.constexpr):
    """One tile of `dk` and `dv`: the sum over all rows of all heads that share it, in order; and their own sums."""
    batch, kv_head, column_tile, _, count = _place(c)
    first = column_tile * TILE
    fixed, matrices = (rooms_of(k, 1), rooms_of(v, 1)), (q, dout, numbers)
    rooms = (rooms_of(q, c.stages), rooms_of(dout, c.stages), rooms_of(numbers, c.stages))
    start, ready = barriers_of(1), barriers_of(c.stages)
    mbarrier.expect(start.index(0), 2 * k.block_type.nbytes)
    tma.async_copy_global_to_shared(k, [batch, kv_head, first, 0], start.index(0), fixed[0].index(0))
    tma.async_copy_global_to_shared(v, [batch, kv_head, first, 0], start.index(0), fixed[1].index(0))
    stages: gl.constexpr = c.stages
    for i in gl.static_range(stages):
        _copy(matrices, rooms, ready, i, i, i < count * c.groups, c)
    dk_sum, dv_sum = sum_of(tile(fixed[0], 0)), sum_of(tile(fixed[1], 0))
    mbarrier.wait(start.index(0), 0)
    slot, phase, before = 0, 0, c.stages - 1
    for member in range(c.groups):
        dk_sum, dv_sum, slot, phase, before = _of_head(
            matrices, fixed, rooms, ready, bias, mask, member, dk_sum, dv_sum, slot, phase, before, c
        )
    dk_sum, dv_sum = warpgroup_mma_wait(0, deps=(dk_sum, dv_sum))
    scale: gl.constexpr = 1.0 if c.dropout is None else c.dropout.scale
    dk_sum, dv_sum = dk_sum * (c.scale * scale), dv_sum * scale
    store(dk, fixed[0].index(0), batch, kv_head, first, dk_sum)
    store(dv, fixed[1].index(0), batch, kv_head, first, dv_sum)
    if c.sums is not None:
        tiles: gl.constexpr = (c.columns + TILE - 1) // TILE
        part = batch * tiles + column_tile
        add_up(parts, part, c.sums.dk + kv_head * c.dk_at[1], first, dk_sum, dk.dtype, c.width, c)
        add_up(parts, part, c.sums.dv + kv_head * c.dv_at[1], first, dv_sum, dv.dtype, c.value_width, c)
    stores_done()
