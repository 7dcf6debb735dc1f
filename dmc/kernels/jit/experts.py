"""Products of groups of rows, each with a matrix of its own: the order of rows by group, and tiles of their products.

`c` is an `OrderShape` or a `ProductShape`. Which group a tile belongs to follows from where groups begin and end, which
only the device knows: programs for the most tiles that any sizes of groups give are launched, and some do nothing.
"""

import triton
import triton.language as tl


@triton.jit
def _group(expert, slot, c: tl.constexpr):
    """The groups of slots: the last for those without an expert, none for what is no slot."""
    number = tl.load(expert + slot, mask=slot < c.slots, other=0)
    group = tl.where((number >= 0) & (number < c.experts), number, c.experts).to(tl.int32)
    return tl.where(slot < c.slots, group, -1)


@triton.jit
def count(expert, counts, c: tl.constexpr):
    """How many slots of each block each group has: [parts, groups, blocks]."""
    part = tl.program_id(0) // c.blocks
    block = tl.program_id(0) % c.blocks
    every = tl.arange(0, c.columns)
    group = _group(expert + part * c.slots, block * c.block + tl.arange(0, c.block), c)
    hit = group[:, None] == every[None, :]
    place = (part * (c.experts + 1) + every) * c.blocks + block
    tl.store(counts + place, tl.sum(hit.to(tl.int32), 0), mask=every <= c.experts)


@triton.jit
def scan(counts, before, totals, c: tl.constexpr):
    """How many slots each group has before each block [parts, groups, blocks], and in all."""
    group = tl.program_id(0)
    total = 0
    for first in range(0, c.blocks, c.scanned):
        block = first + tl.arange(0, c.scanned)
        each = tl.load(counts + group * c.blocks + block, mask=block < c.blocks, other=0)
        tl.store(before + group * c.blocks + block, total + tl.cumsum(each) - each, mask=block < c.blocks)
        total += tl.sum(each)
    tl.store(totals + group, total)


@triton.jit
def put(expert, before, totals, order, place, begins, ends, c: tl.constexpr):
    """Each slot into its place: behind smaller groups, and behind earlier slots of its own."""
    part = tl.program_id(0) // c.blocks
    block = tl.program_id(0) % c.blocks
    every = tl.arange(0, c.columns)
    of_part = part * (c.experts + 1) + every
    sizes = tl.load(totals + of_part, mask=every <= c.experts, other=0)
    end = tl.cumsum(sizes)
    own = tl.arange(0, c.block)
    slot = block * c.block + own
    group = _group(expert + part * c.slots, slot, c)
    first = end - sizes + tl.load(before + of_part * c.blocks + block, mask=every <= c.experts, other=0)
    row = tl.sum(tl.where(group[:, None] == every[None, :], first[None, :], 0), 1)
    # The group of each slot once more, along the other axis.
    other = _group(expert + part * c.slots, block * c.block + own, c)
    row += tl.sum(((group[:, None] == other[None, :]) & (own[None, :] < own[:, None])).to(tl.int32), 1)
    inside = slot < c.slots
    tl.store(place + part * c.slots + slot, row.to(tl.int64), mask=inside)
    tl.store(order + part * c.slots + row, slot.to(tl.int64), mask=inside)
    if block == 0:
        tl.store(begins + part * c.experts + every, (end - sizes).to(tl.int64), mask=every < c.experts)
        tl.store(ends + part * c.experts + every, end.to(tl.int64), mask=every < c.experts)


@triton.jit
def _tile(begins, ends, number, c: tl.constexpr):
    """Of tile `number` of a part the group, its first row, and the end of the group.

    Rows before the first group and behind the last are two groups more.
    """
    every = tl.arange(0, c.columns_of_groups)
    inside = every < c.groups
    begin = tl.load(begins + every, mask=inside, other=0).to(tl.int32)
    end = tl.load(ends + every, mask=inside, other=0).to(tl.int32)
    end = tl.where(every == c.groups, tl.load(begins).to(tl.int32), end)
    begin = tl.where(every == c.groups + 1, tl.load(ends + c.groups - 1).to(tl.int32), begin)
    end = tl.where(every == c.groups + 1, c.rows, end)
    tiles = (end - begin + c.block_rows - 1) // c.block_rows
    after = tl.cumsum(tiles)
    group = tl.sum((after <= number).to(tl.int32))
    own = every == group
    first = tl.sum(tl.where(own, begin + (number - after + tiles) * c.block_rows, 0))
    return group, first, tl.sum(tl.where(own, end, 0))


@triton.jit
def _left(rows, part, first, end, depth, c: tl.constexpr):
    """Rows from `first` on; those behind `end` are not stored, whatever they are."""
    if c.mapped:
        tile = rows.load([part, first, depth]).reshape(c.block_rows, c.block_depth)
    else:
        row = first + tl.arange(0, c.block_rows)
        inner = depth + tl.arange(0, c.block_depth)
        inside = (row < end)[:, None] & (inner < c.depth)[None, :]
        place = (part * c.rows + row).to(tl.int64)[:, None] * c.depth + inner[None, :]
        tile = tl.load(rows + place, mask=inside, other=0.0)
    return tile


@triton.jit
def _right(matrices, group, depth, column, c: tl.constexpr):
    """A tile of the matrix of a group."""
    if c.mapped and c.turned:
        tile = matrices.load([group, column, depth]).reshape(c.block_columns, c.block_depth).T
    elif c.mapped:
        tile = matrices.load([group, depth, column]).reshape(c.block_depth, c.block_columns)
    else:
        inner = (depth + tl.arange(0, c.block_depth))[:, None]
        across = (column + tl.arange(0, c.block_columns))[None, :]
        inside = (inner < c.depth) & (across < c.columns)
        place = across.to(tl.int64) * c.depth + inner if c.turned else inner.to(tl.int64) * c.columns + across
        tile = tl.load(matrices + group.to(tl.int64) * c.depth * c.columns + place, mask=inside, other=0.0)
    return tile


@triton.jit
def multiply(rows, matrices, begins, ends, out, c: tl.constexpr):
    """A tile of the product of rows [parts, rows, depth] and their matrices; those of no group are zero."""
    column = tl.program_id(0) % c.across * c.block_columns
    number = tl.program_id(0) // c.across % c.tiles
    part = tl.program_id(0) // (c.across * c.tiles)
    group, first, end = _tile(begins + part * c.groups, ends + part * c.groups, number, c)
    if first < end:
        total = tl.full([c.block_rows, c.block_columns], 0.0, tl.float32)
        if group < c.groups:
            for depth in range(0, c.depth, c.block_depth):
                left = _left(rows, part, first, end, depth, c)
                right = _right(matrices, group, depth, column, c)
                total = tl.dot(left, right, total, input_precision=c.precision)
        row = first + tl.arange(0, c.block_rows)
        across = column + tl.arange(0, c.block_columns)
        place = out + (part * c.rows + row).to(tl.int64)[:, None] * c.columns + across[None, :]
        tl.store(place, total.to(out.dtype.element_ty), mask=(row < end)[:, None] & (across < c.columns)[None, :])


@triton.jit
def _columns_of(matrix, part, first, end, column, width: tl.constexpr, block: tl.constexpr, c: tl.constexpr):
    """Some columns of rows from `first` on, zero behind `end`."""
    row = first + tl.arange(0, c.block_rows)
    across = column + tl.arange(0, block)
    inside = (row < end)[:, None] & (across < width)[None, :]
    place = (part * c.rows + row).to(tl.int64)[:, None] * width + across[None, :]
    return tl.load(matrix + place, mask=inside, other=0.0)


@triton.jit
def multiply_columns(left_tiles, right_tiles, left, right, begins, ends, out, c: tl.constexpr):
    """A tile of a group's matrix: columns of `left` [parts, rows, depth] times columns of `right` [parts, rows,
    columns], summed over the group's rows, in order."""
    down: tl.constexpr = (c.depth + c.block_depth - 1) // c.block_depth
    tile = tl.program_id(0) % (down * c.across)
    group = tl.program_id(0) // (down * c.across)
    down_at = tile // c.across * c.block_depth
    across_at = tile % c.across * c.block_columns
    total = tl.full([c.block_depth, c.block_columns], 0.0, tl.float32)
    for part in range(c.parts):
        first = tl.load(begins + part * c.groups + group).to(tl.int32)
        end = tl.load(ends + part * c.groups + group).to(tl.int32)
        if c.mapped:
            # The copy engine takes whole tiles; what is behind the group's end is not its own.
            whole = first + (end - first) // c.block_rows * c.block_rows
            for row in range(first, whole, c.block_rows):
                one = left_tiles.load([part, row, down_at]).reshape(c.block_rows, c.block_depth)
                other = right_tiles.load([part, row, across_at]).reshape(c.block_rows, c.block_columns)
                total = tl.dot(one.T, other, total, input_precision=c.precision)
            first = whole
        for row in range(first, end, c.block_rows):
            one = _columns_of(left, part, row, end, down_at, c.depth, c.block_depth, c)
            other = _columns_of(right, part, row, end, across_at, c.columns, c.block_columns, c)
            total = tl.dot(one.T, other, total, input_precision=c.precision)
    along = (down_at + tl.arange(0, c.block_depth))[:, None]
    across = (across_at + tl.arange(0, c.block_columns))[None, :]
    place = out + (group.to(tl.int64) * c.depth + along) * c.columns + across
    tl.store(place, total.to(out.dtype.element_ty), mask=(along < c.depth) & (across < c.columns))
