"""What dropout keeps of a tile of attention, in Gluon: each thread draws whole blocks, for the elements that it holds.

Of 32 neighbours, pair i takes word i div 4 of block i mod 4 (`dmc.kernels.jit.philox`). A thread of a product's
accumulator holds pairs that are eight columns apart, so all that a block serves.
"""

from triton import constexpr_function
from triton.experimental.gluon import language as gl

from dmc.kernels.jit.ahead_tiles import LAYOUT, TILE, jit
from dmc.kernels.jit.philox import packed, words

# Of a row of a tile.
_GROUPS = gl.constexpr(2)


@constexpr_function
def _without(dims, layout):
    """The layout of a tile without these dimensions."""
    for dim in sorted(dims, reverse=True):
        layout = gl.SliceLayout(dim, layout)
    return layout


@constexpr_function
def _along(dim, rank, layout):
    """The layout of the numbers along one dimension."""
    return _without([each for each in range(rank) if each != dim], layout)


@jit
def _by_rows():
    """A tile as [rows, groups, words, blocks, halves]."""
    return gl.zeros([TILE, TILE], gl.int32, LAYOUT).reshape([TILE, _GROUPS, 4, 4, 2])


@jit
def _by_columns():
    """A transposed tile as [groups, words, blocks, halves, rows]."""
    return gl.zeros([TILE, TILE], gl.int32, LAYOUT).reshape([_GROUPS, 4, 4, 2, TILE])


@jit
def _blocks(first_row, first_column):
    """The row of each block of a tile, and its number in it: [rows, groups, blocks]."""
    layout: gl.constexpr = _without([2, 4], _by_rows().type.layout)
    row = gl.arange(0, TILE, _along(0, 3, layout))[:, None, None]
    group = gl.arange(0, _GROUPS, _along(1, 3, layout))[None, :, None]
    block = gl.arange(0, 4, _along(2, 3, layout))[None, None, :]
    return first_row + row, first_column // 8 + group * 4 + block


@jit
def drawn(seed, draw, first_row, first_column, c: gl.constexpr):
    """The words of the blocks of a tile, four of [rows, groups, blocks]; `first_row`: among the rows of all heads."""
    dropout: gl.constexpr = c.dropout
    row, block = _blocks(first_row, first_column)
    if dropout.wide:
        return words(row.to(gl.int64) * dropout.blocks + block, seed, draw, True)
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        return words(row.to(gl.uint32) * dropout.blocks + block.to(gl.uint32), seed, draw, False)


@jit
def kept(drawn_words, c: gl.constexpr):
    """Which elements of a tile are kept by the words that were drawn: booleans [64, 64]."""
    layout: gl.constexpr = _by_rows().type.layout
    a, b = drawn_words[0][:, :, None, :, None], drawn_words[1][:, :, None, :, None]
    x, y = drawn_words[2][:, :, None, :, None], drawn_words[3][:, :, None, :, None]
    which = gl.arange(0, 4, _along(2, 5, layout))[None, None, :, None, None]
    half = gl.arange(0, 2, _along(4, 5, layout))[None, None, None, None, :]
    word = gl.where(which < 2, gl.where(which == 0, a, b), gl.where(which == 2, x, y))
    bits = (word >> (half * 16).to(gl.uint32)) & 0xFFFF
    return gl.convert_layout((bits >= c.dropout.threshold).reshape([TILE, TILE]), LAYOUT, assert_trivial=True)


@jit
def stored(mask, drawn_words, index, first_row, first_column, c: gl.constexpr):
    """Stores which elements of a tile are kept: for each block of a row a byte, [heads, blocks, rows]."""
    dropout: gl.constexpr = c.dropout
    row, block = _blocks(first_row, first_column)
    address = mask + index.to(gl.int64) * (dropout.blocks * c.rows) + block * c.rows + row
    bits = packed(drawn_words[0], drawn_words[1], drawn_words[2], drawn_words[3], dropout).to(gl.int8)
    if c.rows % TILE == 0 and c.columns % TILE == 0:
        gl.store(address, bits)
    else:
        gl.store(address, bits, mask=(row < c.rows) & (block < dropout.blocks))


@jit
def bytes_stored(mask, index, first_row, first_column, c: gl.constexpr):
    """What `stored` left of a tile: [groups, blocks, rows]."""
    dropout: gl.constexpr = c.dropout
    layout: gl.constexpr = _without([1, 3], _by_columns().type.layout)
    group = gl.arange(0, _GROUPS, _along(0, 3, layout))[:, None, None]
    block = gl.arange(0, 4, _along(1, 3, layout))[None, :, None]
    row = gl.arange(0, TILE, _along(2, 3, layout))[None, None, :]
    row, block = first_row + row, first_column // 8 + group * 4 + block
    address = mask + index.to(gl.int64) * (dropout.blocks * c.rows) + block * c.rows + row
    if c.rows % TILE == 0 and c.columns % TILE == 0:
        return gl.load(address)
    else:  # noqa: RET505
        return gl.load(address, mask=(row < c.rows) & (block < dropout.blocks), other=0)


@jit
def kept_by(bits):
    """Which elements of a tile are kept, transposed: booleans [columns, rows], by `bytes_stored`."""
    layout: gl.constexpr = _by_columns().type.layout
    word = gl.arange(0, 4, _along(1, 5, layout))[None, :, None, None, None]
    half = gl.arange(0, 2, _along(3, 5, layout))[None, None, None, :, None]
    bits = bits.to(gl.int32)[:, None, :, :][:, :, :, None, :]
    keep = (bits & (1 << (word * 2 + half))) != 0
    return gl.convert_layout(keep.reshape([TILE, TILE]), LAYOUT, assert_trivial=True)
