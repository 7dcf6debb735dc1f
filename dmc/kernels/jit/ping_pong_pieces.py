"""What the epilogues of `dmc.kernels.jit.ping_pong` are made of: pieces of a tile, in registers and in shared memory.

`c` is a `Turns`. `ahead`: the matrices that an epilogue reads, rooms for their pieces in shared memory, and a barrier
for each room.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

jit = gluon.jit


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
    """Begins to copy a piece of what an epilogue reads. row, column: of the tile."""
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
def leave(total, rooms, first: gl.constexpr, pieces: gl.constexpr):
    """Stores the pieces of a tile from room number `first` on."""
    if pieces == 1:
        rooms.index(first).store(total.to(rooms.dtype))
    else:
        left, right = halves(total)
        leave(left, rooms, first, pieces // 2)
        leave(right, rooms, first + pieces // 2, pieces // 2)
