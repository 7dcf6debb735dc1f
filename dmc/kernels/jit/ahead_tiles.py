"""Code shared by the kernels of attention in Gluon: tiles that TMA copies ahead, and their products.

A tile has 64 rows and 128 threads, and is 64 or 128 wide, with zeros beyond a narrower head. Tiles lie in slots of
shared memory, each with a barrier whose phase changes when a tile has arrived. `c` is an `AttentionShape`, a step the
number of a tile in the order of its use.
"""

from triton import constexpr_function
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_init,
)

jit = gluon.jit
TILE = gl.constexpr(64)
# Of scores: 128 threads with 32 elements each.
LAYOUT = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))
ROWS = gl.constexpr(gl.SliceLayout(1, LAYOUT.value))
COLUMNS = gl.constexpr(gl.SliceLayout(0, LAYOUT.value))
# Triton 3.6's name for it, which later versions lack.
thread_barrier = gl.thread_barrier if hasattr(gl, "thread_barrier") else gl.barrier


@constexpr_function
def _layout_of(width):
    """The layout of a sum of products."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, width, 16])


@jit
def copy(first, second, rooms, barriers, slot, batch, head, step, pred):
    """Begins to copy the tiles of a step from two matrices of a head, if `pred`."""
    row = step * TILE
    barrier = barriers.index(slot)
    mbarrier.expect(barrier, first.block_type.nbytes + second.block_type.nbytes, pred)
    tma.async_copy_global_to_shared(first, [batch, head, row, 0], barrier, rooms[0].index(slot), pred)
    tma.async_copy_global_to_shared(second, [batch, head, row, 0], barrier, rooms[1].index(slot), pred)


@jit
def copy_first(first, second, rooms, barriers, batch, head, steps, c: gl.constexpr):
    """Begins to copy the tiles of the first steps, as many as there are slots."""
    stages: gl.constexpr = c.stages
    for i in gl.static_range(stages):
        copy(first, second, rooms, barriers, i, batch, head, i, i < steps)


@jit
def after(slot, phase, c: gl.constexpr):
    """The slot of the next step, the phase of its barrier, and this slot, whose tiles are replaced next."""
    # 1 after the last slot.
    is_last = slot // (c.stages - 1)
    return (slot + 1) * (1 - is_last), phase ^ is_last, slot


@jit
def steps_of(first_row, c: gl.constexpr):
    """How many tiles of columns a tile of rows sees, and how many all its rows see whole: these need no mask."""
    end = gl.minimum(first_row + TILE, c.columns) if c.causal else c.columns
    return (end + TILE - 1) // TILE, (gl.minimum(first_row, end) if c.causal else end) // TILE


@jit
def tile(rooms, slot):
    """A tile in shared memory, [64, width]."""
    return rooms.index(slot).reshape([TILE, rooms.shape[4]])


@jit
def begun(a, b):
    """The product a · bᵀ of two tiles in shared memory, which runs on."""
    return warpgroup_mma(a, b.permute((1, 0)), gl.zeros([TILE, TILE], gl.float32, LAYOUT), use_acc=False, is_async=True)


@jit
def sum_of(room):
    """The sum of no products yet, as wide as a tile in shared memory."""
    width: gl.constexpr = room.shape[1]
    layout: gl.constexpr = _layout_of(width)
    return warpgroup_mma_init(gl.zeros([TILE, width], gl.float32, layout))


@jit
def factor(x, other):
    """A tile that was computed, as the first factor of a product with one in shared memory."""
    layout: gl.constexpr = gl.DotOperandLayout(0, _layout_of(other.shape[1]), 2)
    return gl.convert_layout(x.to(other.dtype), layout)


@jit
def scaled(total, factors):
    """A sum of products, each row times its factor."""
    layout: gl.constexpr = gl.SliceLayout(1, _layout_of(total.shape[1]))
    return total * gl.convert_layout(factors, layout, assert_trivial=True)[:, None]


@jit
def rows_from(first):
    """The numbers of the rows of a tile."""
    return first + gl.arange(0, TILE, ROWS)


@jit
def columns_from(first):
    """The numbers of the columns of a tile."""
    return first + gl.arange(0, TILE, COLUMNS)


@jit
def store(tensor, room, batch, head, row, value):
    """Begins to copy a tile to memory by way of `room`, shared memory that nothing reads any more."""
    thread_barrier()
    room.reshape(value.shape).store(value.to(tensor.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(tensor, [batch, head, row, 0], room)


@jit
def stores_done():
    """Waits for what was begun, before the program may end."""
    tma.store_wait(0)


@jit
def add_up(parts, part, first_column, first_row, value, dtype: gl.constexpr, limit: gl.constexpr, c: gl.constexpr):
    """Stores the sums over the rows of a tile, as it is rounded to memory, in a row of `parts`, f32 [.., width].

    limit: the columns of the tile that are there.
    """
    rounded = value.to(dtype).to(gl.float32)
    if c.columns % TILE != 0:
        row = first_row + gl.arange(0, TILE, gl.SliceLayout(1, value.type.layout))
        rounded = gl.where((row < c.columns)[:, None], rounded, 0.0)
    column = gl.arange(0, value.shape[1], gl.SliceLayout(0, value.type.layout))
    address = parts + part.to(gl.int64) * c.sums.width + first_column + column
    gl.store(address, gl.sum(rounded, 0), mask=column < limit)
