"""Sums of partial results in a fixed order, hence deterministic. `c` is a `SumShape`."""

import triton
import triton.language as tl


@triton.jit
def columns(parts, out, c: tl.constexpr):
    """`out` [width]: the sum of the rows of `parts`, f32 [rows, width]."""
    column = tl.program_id(0).to(tl.int64) * c.block_width + tl.arange(0, c.block_width)
    total = tl.full([c.block_rows, c.block_width], 0.0, tl.float32)
    for first in range(0, c.rows, c.block_rows):
        row = first + tl.arange(0, c.block_rows)
        inside = (row < c.rows)[:, None] & (column < c.width)[None, :]
        total += tl.load(parts + row.to(tl.int64)[:, None] * c.width + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(total, 0).to(out.dtype.element_ty), mask=column < c.width)
