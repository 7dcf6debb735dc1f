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

jit, constexpr = gluon.jit, gl.constexpr
# Tiles in neighbouring rows that are computed at a time share columns in the cache.
_TOGETHER = gl.constexpr(8)
# Registers of a thread that multiplies, and of one that copies.
_REGISTERS = gl.constexpr(240)
_FEW_REGISTERS = gl.constexpr(24)


@jit
def full(shape: gl.constexpr, value, dtype: gl.constexpr):
    """A typed number, or a tile filled with it."""
    return gl.full(shape, value, dtype)


@jit
def halves(x):
    """The left and the right half of a tile; no value moves between threads."""
    half: gl.constexpr = x.shape[1] // 2
    return x.reshape([x.shape[0], 2, half]).permute((0, 2, 1)).split()


@jit
def piece(total, count: gl.constexpr):
    """The first of `count` pieces of a tile."""
    first = total
    if count > 1:
        first, _ = halves(total)
    if count > 2:
        first, _ = halves(first)
    return first


@jit
def rows(like):
    """The numbers of the rows of a tile such as `like`, as a column."""
    layout: gl.constexpr = like.type.layout
    return gl.arange(0, like.shape[0], gl.SliceLayout(1, layout))[:, None]


@jit
def columns(like):
    """The numbers of the columns of a tile such as `like`, as a row."""
    layout: gl.constexpr = like.type.layout
    return gl.arange(0, like.shape[1], gl.SliceLayout(0, layout))[None, :]


@jit
def _by_words(like, width: gl.constexpr):
    """A tile such as `like`, whose last axis is the bits of words; no value moves between threads."""
    return like.reshape([like.shape[0], like.shape[1] // width, width])


@jit
def word_rows(like, width: gl.constexpr):
    """The numbers of the rows of a tile such as `like`, as a column, where its words are."""
    layout: gl.constexpr = _by_words(like, width).type.layout
    return gl.arange(0, like.shape[0], gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None]


@jit
def word_columns(like, width: gl.constexpr):
    """The numbers of the words in a row of a tile such as `like`, as a row."""
    layout: gl.constexpr = _by_words(like, width).type.layout
    return gl.arange(0, like.shape[1] // width, gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :]


@jit
def bits(words, like, width: gl.constexpr):
    """Whether each bit of a tile of words is set, as a tile such as `like`."""
    layout: gl.constexpr = _by_words(like, width).type.layout
    place = gl.arange(0, width, gl.SliceLayout(0, gl.SliceLayout(0, layout)))
    spread = (words[:, :, None] >> place[None, :][None, :, :]) & 1 != 0
    return gl.convert_layout(spread.reshape(like.shape), like.type.layout, assert_trivial=True)


@jit
def store(matrix, room, corner, value, waiting: gl.constexpr):
    """Copies a tile to memory by way of `room`, in which the last but `waiting` copy was."""
    tma.store_wait(waiting)
    room.store(value)
    fence_async_shared()
    tma.async_copy_shared_to_global(matrix, corner, room)


@jit
def fetch(ahead, row, column, piece, group: gl.constexpr, c: gl.constexpr):
    """Begins to copy a piece of what an epilogue reads. ahead: the matrices, rooms for pieces, and a barrier for each
    room. row, column: of the tile."""
    matrices, rooms, landed = ahead
    place = group * c.ahead + piece % c.ahead
    width: gl.constexpr = c.columns // c.pieces
    barrier = landed.index(place)
    mbarrier.expect(barrier, c.ahead_bytes)
    corner = [row * c.rows, column * c.columns + piece * width]
    for i in gl.static_range(len(matrices)):
        tma.async_copy_global_to_shared(matrices[i], corner, barrier, rooms[i].index(place))


@jit
def fetch_later(ahead, row, column, piece, group: gl.constexpr, c: gl.constexpr):
    """Begins to copy the piece that comes into the room of piece number `piece`, which was read."""
    if piece + c.ahead < c.pieces:
        fetch(ahead, row, column, piece + c.ahead, group, c)


@jit
def wait(ahead, piece, turn, group: gl.constexpr, c: gl.constexpr):
    """Waits for a piece of the tile that is number `turn` of the group."""
    _, _, landed = ahead
    used = turn * (c.pieces // c.ahead) + piece // c.ahead
    mbarrier.wait(landed.index(group * c.ahead + piece % c.ahead), used & 1)


@jit
def read(ahead, number: gl.constexpr, corner, piece, group: gl.constexpr, like, c: gl.constexpr):
    """A piece of matrix `number`, as a tile such as `like`."""
    _, rooms, _ = ahead
    return rooms[number].index(group * c.ahead + piece % c.ahead).load(like.type.layout)


@jit
def add_rows(sums, first, value, most: gl.constexpr):
    """Stores the sums of a tile's columns, of which the first is number `first` of `sums`. most: how many there are
    in all; 0 where no tile has more."""
    columns = first + gl.arange(0, value.shape[1], gl.SliceLayout(0, value.type.layout))
    total = gl.sum(value, 0)
    if most:
        gl.store(sums + columns, total, mask=columns < most)
    else:
        gl.store(sums + columns, total)


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
def _leave(total, rooms, first: gl.constexpr, pieces: gl.constexpr):
    """Stores the pieces of a tile from room number `first` on."""
    if pieces == 1:
        rooms.index(first).store(total.to(rooms.dtype))
    else:
        left, right = halves(total)
        _leave(left, rooms, first, pieces // 2)
        _leave(right, rooms, first + pieces // 2, pieces // 2)


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
        if c.looped:
            pieces: gl.constexpr = c.pieces
            _leave(total, products, pieces * group, pieces)
            like: gl.constexpr = piece(total, pieces).type.layout
            for i in range(pieces):
                part = products.index(pieces * group + i).load(like)
                finish(part, row, column, memory, staging, ahead, turn - 1, group, i)
        else:
            finish(total, row, column, memory, staging, ahead, turn - 1, group, 0)
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
def multiply(first, second, memory, results, operands, finish: gl.constexpr, c: gl.constexpr):
    """The product of the matrices `first` and `second`, of which tiles go to `finish`.

    memory: what `finish` reads and writes. results: the matrices that it stores by way of rooms in shared memory.
    operands: those that it reads there, copied while its group multiplies.
    """
    in_flight: gl.constexpr = c.in_flight
    left = gl.allocate_shared_memory(first.dtype, [in_flight] + first.block_type.shape, first.layout)
    right = gl.allocate_shared_memory(second.dtype, [in_flight] + second.block_type.shape, second.layout)
    staging = ()
    for i in gl.static_range(len(results)):
        result = results[i]
        staging = staging + (
            gl.allocate_shared_memory(result.dtype, [2 * c.ring] + result.block_type.shape, result.layout),
        )
    slots: gl.constexpr = 2 * c.ahead
    copies = ()
    landed = ()
    if slots:
        for i in gl.static_range(len(operands)):
            operand = operands[i]
            copies = copies + (
                gl.allocate_shared_memory(operand.dtype, [slots] + operand.block_type.shape, operand.layout),
            )
        landed = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
        for i in gl.static_range(slots):
            mbarrier.init(landed.index(i), count=1)
    ahead = (operands, copies, landed)
    products = ()
    if c.looped:
        # As results of the same type are stored.
        width: gl.constexpr = c.columns // c.pieces
        layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([c.rows, width], first.dtype)
        products = gl.allocate_shared_memory(first.dtype, [2 * c.pieces, c.rows, width], layout)
    empty = gl.allocate_shared_memory(gl.int64, [in_flight, 1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [in_flight, 1], mbarrier.MBarrierLayout())
    turns = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(in_flight):
        mbarrier.init(empty.index(i), count=1)
        mbarrier.init(ready.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(turns.index(i), count=1)
    fence_async_shared()
    rooms = (left, right)
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
