"""Matrix products by two groups of warps in turn: while one multiplies, the other computes its epilogue.

A third group, of one warp, copies the tiles of both factors to shared memory (TMA), ahead of their use. So tensor cores
do not wait for an epilogue (the "ping-pong" schedule of CUTLASS 3, here in Gluon, which shows warps and shared memory).
`finish`, which is generated, computes the epilogue of a tile. `c` is a `Turns`.

A barrier counts only whether its phase is even. A group that waits for its turn is never two phases behind.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from dmc.kernels.jit.ping_pong_pieces import (
    add_rows,
    bits,
    columns,
    fetch,
    fetch_later,
    full,
    halves,
    leave,
    piece,
    read,
    rows,
    store,
    wait,
    word_columns,
    word_rows,
)
from dmc.kernels.jit.shared_memory import barriers_of, rooms_of

# For generated kernels, whose epilogues call the others.
__all__ = ["add_rows", "bits", "columns", "constexpr", "fetch_later", "full", "halves", "jit", "multiply", "piece"]
__all__ += ["read", "rows", "store", "wait", "word_columns", "word_rows"]

jit, constexpr = gluon.jit, gl.constexpr
# Tiles in neighbouring rows that are computed at a time share columns in the cache.
_TOGETHER = gl.constexpr(8)
# Registers of a thread that multiplies, and of one that copies.
_REGISTERS = gl.constexpr(240)
_FEW_REGISTERS = gl.constexpr(24)


@jit
def _tile(number, c: gl.constexpr):
    group = number // (_TOGETHER * c.across)
    height = gl.minimum(c.down - group * _TOGETHER, _TOGETHER)
    rest = number % (_TOGETHER * c.across)
    return group * _TOGETHER + rest % height, rest // height


@jit
def _copy(first, second, rooms, barriers, c: gl.constexpr):
    """The group that copies."""
    left, right = rooms
    empty, ready, _ = barriers
    step = 0
    for number in range(gl.program_id(0), c.down * c.across, c.programs):
        row, column = _tile(number, c)
        row *= c.rows
        column *= c.columns
        for inner in range(c.steps):
            slot = step % c.in_flight
            mbarrier.wait(empty.index(slot), (step // c.in_flight & 1) ^ 1)
            barrier = ready.index(slot)
            mbarrier.expect(barrier, first.block_type.nbytes + second.block_type.nbytes)
            depth = inner * c.inner
            if c.first_turned:
                tma.async_copy_global_to_shared(first, [depth, row], barrier, left.index(slot))
            else:
                tma.async_copy_global_to_shared(first, [row, depth], barrier, left.index(slot))
            if c.second_turned:
                tma.async_copy_global_to_shared(second, [depth, column], barrier, right.index(slot))
            else:
                tma.async_copy_global_to_shared(second, [column, depth], barrier, right.index(slot))
            step += 1


@jit
def _factors(rooms, slot, c: gl.constexpr):
    left, right = rooms
    a = left.index(slot).permute((1, 0)) if c.first_turned else left.index(slot)
    b = right.index(slot) if c.second_turned else right.index(slot).permute((1, 0))
    return a, b


@jit
def _finish(
    total,
    row,
    column,
    memory,
    staging,
    ahead,
    products,
    turn,
    finish: gl.constexpr,
    c: gl.constexpr,
    group: gl.constexpr,
):
    """The epilogue of a tile, or of one piece after another, which is read again from shared memory."""
    if c.looped:
        pieces: gl.constexpr = c.pieces
        leave(total, products, pieces * group, pieces)
        layout: gl.constexpr = piece(total, pieces).type.layout
        for i in range(pieces):
            part = products.index(pieces * group + i).load(layout)
            finish(part, row, column, memory, staging, ahead, turn, group, i)
    else:
        finish(total, row, column, memory, staging, ahead, turn, group, 0)


@jit
def _compute(
    memory,
    staging,
    ahead,
    products,
    rooms,
    barriers,
    finish: gl.constexpr,
    c: gl.constexpr,
    group: gl.constexpr,
):
    """A group that multiplies: every other tile of the program."""
    empty, ready, turns = barriers
    rows: gl.constexpr = c.rows
    columns: gl.constexpr = c.columns
    slots: gl.constexpr = c.ahead
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, columns, 16])
    turn = 0
    for number in range(gl.program_id(0) + group * c.programs, c.down * c.across, 2 * c.programs):
        row, column = _tile(number, c)
        for i in gl.static_range(slots):
            fetch(ahead, row, column, i, group, c)
        mbarrier.wait(turns.index(group), (turn & 1) ^ (1 - group))
        begin = (2 * turn + group) * c.steps
        total = gl.zeros([rows, columns], gl.float32, layout)
        for inner in range(c.steps):
            step = begin + inner
            slot = step % c.in_flight
            mbarrier.wait(ready.index(slot), step // c.in_flight & 1)
            a, b = _factors(rooms, slot, c)
            total = warpgroup_mma(a, b, total, is_async=True)
            total = warpgroup_mma_wait(1, deps=(total,))
            # What was multiplied before is done.
            mbarrier.arrive(empty.index((step + c.in_flight - 1) % c.in_flight), count=1, pred=inner > 0)
        # One thread arrives; Triton puts a barrier of the group before, since products read shared memory.
        mbarrier.arrive(turns.index(1 - group), count=1)
        total = warpgroup_mma_wait(0, deps=(total,))
        mbarrier.arrive(empty.index((begin + c.steps - 1) % c.in_flight), count=1)
        turn += 1
        _finish(total, row, column, memory, staging, ahead, products, turn - 1, finish, c, group)
    tma.store_wait(0)


@jit
def _compute_first(
    first, second, memory, staging, ahead, products, rooms, barriers, finish: gl.constexpr, c: gl.constexpr
):
    _compute(memory, staging, ahead, products, rooms, barriers, finish, c, 0)


@jit
def _compute_second(
    first, second, memory, staging, ahead, products, rooms, barriers, finish: gl.constexpr, c: gl.constexpr
):
    _compute(memory, staging, ahead, products, rooms, barriers, finish, c, 1)


@jit
def _copy_all(first, second, memory, staging, ahead, products, rooms, barriers, finish: gl.constexpr, c: gl.constexpr):
    _copy(first, second, rooms, barriers, c)


@jit
def _rooms(matrices, count: gl.constexpr):
    """Shared memory for so many tiles of each matrix."""
    made = ()
    for i in gl.static_range(len(matrices)):
        made = made + (rooms_of(matrices[i], count),)
    return made


@jit
def multiply(first, second, memory, results, operands, finish: gl.constexpr, c: gl.constexpr):
    """The product of the matrices `first` and `second`, of which tiles go to `finish`.

    memory: what `finish` reads and writes. results: the matrices that it stores by way of rooms in shared memory.
    operands: those that it reads there, copied while its group multiplies.
    """
    in_flight: gl.constexpr = c.in_flight
    rooms = (rooms_of(first, in_flight), rooms_of(second, in_flight))
    staging = _rooms(results, 2 * c.ring)
    slots: gl.constexpr = 2 * c.ahead
    ahead = ()
    if slots:
        ahead = (operands, _rooms(operands, slots), barriers_of(slots))
    products = ()
    if c.looped:
        # As results of the same type are stored.
        width: gl.constexpr = c.columns // c.pieces
        layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([c.rows, width], first.dtype)
        products = gl.allocate_shared_memory(first.dtype, [2 * c.pieces, c.rows, width], layout)
    empty = barriers_of(in_flight)
    ready = barriers_of(in_flight)
    turns = barriers_of(2)
    fence_async_shared()
    barriers = (empty, ready, turns)
    gl.warp_specialize(
        [
            (_compute_first, (first, second, memory, staging, ahead, products, rooms, barriers, finish, c)),
            (_compute_second, (first, second, memory, staging, ahead, products, rooms, barriers, finish, c)),
            (_copy_all, (first, second, memory, staging, ahead, products, rooms, barriers, finish, c)),
        ],
        [4, 1],
        [_REGISTERS, _FEW_REGISTERS],
    )
