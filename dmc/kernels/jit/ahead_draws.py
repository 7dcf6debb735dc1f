"""What dropout keeps of a tile of attention, in Gluon: each thread draws whole blocks, for the elements that it holds.

Of a group of neighbours, pair i takes its bits of block i mod 4, in the order of words (`dmc.kernels.jit.philox`). A
thread of a product's accumulator holds pairs that are eight columns apart, so all that a block serves.
"""

from triton import constexpr_function
from triton.experimental.gluon import language as gl

from dmc.kernels.jit.ahead_tiles import LAYOUT, TILE, jit
from dmc.kernels.jit.philox import is_kept, packed, words


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
def _by_rows(dropout: gl.constexpr):
    """A tile as [rows, groups, words, pairs, blocks, neighbours]."""
    return gl.zeros([TILE, TILE], gl.int32, LAYOUT).reshape([TILE, dropout.groups, 4, dropout.pairs, 4, 2])


@jit
def _by_columns(dropout: gl.constexpr):
    """A transposed tile as [groups, pairs of all words, blocks, neighbours, rows]."""
    return gl.zeros([TILE, TILE], gl.int32, LAYOUT).reshape([dropout.groups, 4 * dropout.pairs, 4, 2, TILE])


@jit
def _blocks(first_row, first_column, dropout: gl.constexpr):
    """The row of each block of a tile, and its number in it: [rows, groups, blocks]."""
    layout: gl.constexpr = _without([2, 3, 5], _by_rows(dropout).type.layout)
    row = gl.arange(0, TILE, _along(0, 3, layout))[:, None, None]
    group = gl.arange(0, dropout.groups, _along(1, 3, layout))[None, :, None]
    block = gl.arange(0, 4, _along(2, 3, layout))[None, None, :]
    return first_row + row, first_column // dropout.lanes + group * 4 + block


@jit
def drawn(seed, draw, first_row, first_column, c: gl.constexpr):
    """The words of the blocks of a tile, four of [rows, groups, blocks]; `first_row`: among the rows of all heads."""
    dropout: gl.constexpr = c.dropout
    row, block = _blocks(first_row, first_column, dropout)
    if dropout.wide:
        return words(row.to(gl.int64) * dropout.blocks + block, seed, draw, True)
    else:  # noqa: RET505 Triton compiles what is behind a return, whose types would have to agree.
        return words(row.to(gl.uint32) * dropout.blocks + block.to(gl.uint32), seed, draw, False)


@jit
def kept(drawn_words, c: gl.constexpr):
    """Which elements of a tile are kept by the words that were drawn: booleans [64, 64]."""
    dropout: gl.constexpr = c.dropout
    layout: gl.constexpr = _by_rows(dropout).type.layout
    a, b = drawn_words[0][:, :, None, None, :, None], drawn_words[1][:, :, None, None, :, None]
    x, y = drawn_words[2][:, :, None, None, :, None], drawn_words[3][:, :, None, None, :, None]
    which = gl.arange(0, 4, _along(2, 6, layout))[None, None, :, None, None, None]
    pair = gl.arange(0, dropout.pairs, _along(3, 6, layout))[None, None, None, :, None, None]
    neighbour = gl.arange(0, 2, _along(5, 6, layout))[None, None, None, None, None, :]
    word = gl.where(which < 2, gl.where(which == 0, a, b), gl.where(which == 2, x, y))
    keep = is_kept(word, pair * 2 + neighbour, dropout)
    return gl.convert_layout(keep.reshape([TILE, TILE]), LAYOUT, assert_trivial=True)


@jit
def stored(mask, drawn_words, index, first_row, first_column, c: gl.constexpr):
    """Stores which elements of a tile are kept: for each block of a row 8 or 16 bits, [heads, blocks, rows]."""
    dropout: gl.constexpr = c.dropout
    row, block = _blocks(first_row, first_column, dropout)
    address = mask + index.to(gl.int64) * (dropout.blocks * c.rows) + block * c.rows + row
    bits = packed(drawn_words[0], drawn_words[1], drawn_words[2], drawn_words[3], dropout)
    bits = bits.to(mask.dtype.element_ty)
    if c.rows % TILE == 0 and c.columns % TILE == 0:
        gl.store(address, bits)
    else:
        gl.store(address, bits, mask=(row < c.rows) & (block < dropout.blocks))


@jit
def bits_stored(mask, index, first_row, first_column, c: gl.constexpr):
    """What `stored` left of a tile: [groups, blocks, rows]."""
    dropout: gl.constexpr = c.dropout
    layout: gl.constexpr = _without([1, 3], _by_columns(dropout).type.layout)
    group = gl.arange(0, dropout.groups, _along(0, 3, layout))[:, None, None]
    block = gl.arange(0, 4, _along(1, 3, layout))[None, :, None]
    row = gl.arange(0, TILE, _along(2, 3, layout))[None, None, :]
    row, block = first_row + row, first_column // dropout.lanes + group * 4 + block
    address = mask + index.to(gl.int64) * (dropout.blocks * c.rows) + block * c.rows + row
    if c.rows % TILE == 0 and c.columns % TILE == 0:
        return gl.load(address)
    else:  # noqa: RET505
        return gl.load(address, mask=(row < c.rows) & (block < dropout.blocks), other=0)


@jit
def kept_by(bits, c: gl.constexpr):
    """Which elements of a tile are kept, transposed: booleans [columns, rows], by `bits_stored`."""
    dropout: gl.constexpr = c.dropout
    layout: gl.constexpr = _by_columns(dropout).type.layout
    pair = gl.arange(0, 4 * dropout.pairs, _along(1, 5, layout))[None, :, None, None, None]
    neighbour = gl.arange(0, 2, _along(3, 5, layout))[None, None, None, :, None]
    bits = bits.to(gl.int32)[:, None, :, :][:, :, :, None, :]
    keep = (bits & (1 << (pair * 2 + neighbour))) != 0
    return gl.convert_layout(keep.reshape([TILE, TILE]), LAYOUT, assert_trivial=True)
