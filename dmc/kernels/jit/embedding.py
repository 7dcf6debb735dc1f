"""The gradient of an embedding without atomics: occurrences are sorted by row, then each row sums its own.

Runs of occurrences are sorted first; an occurrence's place in the whole is the sum of its places in all runs, found by
bisection (as ranks are for merging in Satish, Harris and Garland, "Designing efficient sorting algorithms for manycore
GPUs", 2009).

`c` is an `EmbeddingShape`. An occurrence that counts for no row (out of range, or padding) sorts behind all others. Of
a part of a table, `first` points to the place of its first row in the whole; otherwise it is not read.
"""

import triton
import triton.language as tl


@triton.jit
def _row_of(index, first, place, c: tl.constexpr):
    """The rows of occurrences, `c.rows` for those without a row."""
    row = tl.load(index + place, mask=place < c.occurrences, other=-1)
    is_padding = row == c.padding_index
    if c.is_part:
        row -= tl.load(first)
    counts = (row >= 0) & (row < c.rows) & ~is_padding
    return tl.where(counts, row, c.rows).to(tl.int32)


@triton.jit
def sort(index, first, runs, c: tl.constexpr):
    """Sorts the keys of each run of occurrences: a key's place is how many of its run are smaller."""
    own = tl.program_id(0) * c.block_rank
    key = _key(index, first, own + tl.arange(0, c.block_rank), c)
    begin = own // c.run * c.run
    before = tl.full([c.block_rank], 0, tl.int32)
    for start in range(begin, begin + c.run, c.block_scan):
        other = _key(index, first, start + tl.arange(0, c.block_scan), c)
        before += tl.sum((other[None, :] < key[:, None]).to(tl.int32), 1)
    tl.store(runs + begin + before, key)


@triton.jit
def count(index, first, runs, counts, c: tl.constexpr):
    """For each occurrence, how many of a share of all others precede it, by bisection of sorted runs: [shares,
    occurrences].

    Those of smaller rows do, and earlier ones of the same row.
    """
    blocks: tl.constexpr = (c.occurrences + c.block_rank - 1) // c.block_rank
    share = tl.program_id(0) // blocks
    own = tl.program_id(0) % blocks * c.block_rank + tl.arange(0, c.block_rank)
    key = _key(index, first, own, c)
    before = tl.full([c.block_rank], 0, tl.int32)
    for run in range(share * c.share, tl.minimum(share * c.share + c.share, c.run_count)):
        place = tl.full([c.block_rank], 0, tl.int32)
        step = c.run // 2
        while step > 0:
            place += tl.where(tl.load(runs + run * c.run + place + step - 1) < key, step, 0)
            step = step // 2
        before += place + (tl.load(runs + run * c.run + place) < key).to(tl.int32)
    tl.store(counts + share * c.occurrences + own, before, mask=own < c.occurrences)


@triton.jit
def _key(index, first, place, c: tl.constexpr):
    """The sort keys of occurrences, all distinct. Beyond the last one they are larger than all."""
    row = tl.where(place < c.occurrences, _row_of(index, first, place, c), c.rows + 1)
    if c.wide:
        row = row.to(tl.int64)
    return row * c.occurrences + place


@triton.jit
def put(index, first, counts, order, sorted_rows, c: tl.constexpr):
    """Puts occurrences into their places."""
    own = tl.program_id(0) * c.block_bounds + tl.arange(0, c.block_bounds)
    inside = own < c.occurrences
    place = tl.full([c.block_bounds], 0, tl.int32)
    for share in range(c.shares):
        place += tl.load(counts + share * c.occurrences + own, mask=inside, other=0)
    tl.store(order + place, own, mask=inside)
    tl.store(sorted_rows + place, _row_of(index, first, own, c), mask=inside)


@triton.jit
def bounds(sorted_rows, starts, c: tl.constexpr):
    """For each row, where its occurrences begin: how many sorted ones are smaller, by bisection."""
    row = tl.program_id(0) * c.block_bounds + tl.arange(0, c.block_bounds)
    low = tl.full([c.block_bounds], 0, tl.int32)
    high = tl.full([c.block_bounds], c.occurrences, tl.int32)
    for _ in range(c.bisections):
        middle = (low + high) // 2
        found = tl.load(sorted_rows + middle, mask=middle < high, other=c.rows + 1)
        low = tl.where((found < row) & (middle < high), middle + 1, low)
        high = tl.where((found >= row) & (middle < high), middle, high)
    tl.store(starts + row, low, mask=row <= c.rows)


@triton.jit
def gather(dy, order, starts, out, c: tl.constexpr):
    """The sum of a part of the occurrences of one row, in order: [parts, rows, width]."""
    part, row = tl.program_id(0) // c.rows, tl.program_id(0) % c.rows
    begin, end = tl.load(starts + row), tl.load(starts + row + 1)
    share = (end - begin + c.parts - 1) // c.parts
    begin = tl.minimum(begin + part * share, end)
    end = tl.minimum(begin + share, end)
    column = tl.arange(0, c.block_width)
    total = tl.full([c.block_gather, c.block_width], 0.0, tl.float32)
    for first in range(begin, end, c.block_gather):
        place = first + tl.arange(0, c.block_gather)
        occurrence = tl.load(order + place, mask=place < end, other=0).to(tl.int64)
        inside = (place < end)[:, None] & (column < c.width)[None, :]
        total += tl.load(dy + occurrence[:, None] * c.width + column[None, :], mask=inside, other=0.0).to(tl.float32)
    place = out + tl.program_id(0).to(tl.int64) * c.width + column
    tl.store(place, tl.sum(total, 0).to(out.dtype.element_ty), mask=column < c.width)
