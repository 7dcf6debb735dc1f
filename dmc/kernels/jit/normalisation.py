"""Layer and RMS normalisation of rows, with an optional prologue: adding the input, after dropout, to a residual.

`c` is a `NormShape`. Gradients of weights are summed in two stages: each program stores a partial sum of its rows, and
`dmc.kernels.jit.sums` sums these in order.
"""

import triton
import triton.language as tl

from dmc.kernels.jit.philox import kept


@triton.jit
def _rows(pointer, row, column, inside, c: tl.constexpr):
    return tl.load(pointer + row.to(tl.int64)[:, None] * c.width + column[None, :], mask=inside, other=0.0)


@triton.jit
def _dropped(value, first, seed, draw, c: tl.constexpr):
    dropout: tl.constexpr = c.dropout
    keep = kept(first, 0, tl.load(seed), tl.load(draw), dropout)
    return tl.where(keep, value * c.dropout.scale, 0.0)


@triton.jit
def forward(x, residual, weight, bias, seed, draw, total, y, mean, rstd, c: tl.constexpr):
    """`y`, and `mean` and `rstd` of each row, of x or of `total` = residual + dropout(x), which is written too."""
    first = tl.program_id(0) * c.block_rows
    row, column = first + tl.arange(0, c.block_rows), tl.arange(0, c.block_width)
    within = (column < c.width)[None, :]
    inside = (row < c.rows)[:, None] & within
    address = row.to(tl.int64)[:, None] * c.width + column[None, :]
    value = tl.load(x + address, mask=inside, other=0.0).to(tl.float32)
    if c.dropout is not None:
        value = _dropped(value, first, seed, draw, c)
    if c.residual:
        value += tl.load(residual + address, mask=inside, other=0.0).to(tl.float32)
        tl.store(total + address, value.to(total.dtype.element_ty), mask=inside)
        # The backward pass reads the rounded `total`, so that is normalised.
        value = value.to(total.dtype.element_ty).to(tl.float32)
    if c.centred:
        centre = tl.sum(value, 1) / c.width
        value = tl.where(within, value - centre[:, None], 0.0)
        tl.store(mean + row, centre, mask=row < c.rows)
    scale = tl.rsqrt(tl.sum(value * value, 1) / c.width + c.eps)
    tl.store(rstd + row, scale, mask=row < c.rows)
    value *= scale[:, None] * tl.load(weight + column, mask=column < c.width, other=0.0).to(tl.float32)[None, :]
    if c.centred:
        value += tl.load(bias + column, mask=column < c.width, other=0.0).to(tl.float32)[None, :]
    tl.store(y + address, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward(dy, dtotal, x, weight, mean, rstd, seed, draw, dresidual, dx, dweights, dbiases, c: tl.constexpr):
    """`dx` of this program's rows, and its part of the gradients of weight and bias, f32 [programs, width].

    With a residual, `dtotal` is added: the sum is `dresidual`, and after dropout `dx`.
    """
    column = tl.arange(0, c.block_width)
    within = column < c.width
    scale = tl.load(weight + column, mask=within, other=0.0).to(tl.float32)[None, :]
    dweight = tl.full([c.block_rows, c.block_width], 0.0, tl.float32)
    dbias = tl.full([c.block_rows, c.block_width], 0.0, tl.float32)
    begin = tl.program_id(0) * c.rows_of_program
    end = tl.minimum(begin + c.rows_of_program, c.rows)
    for first in tl.range(begin, end, c.block_rows, num_stages=c.stages):
        row = first + tl.arange(0, c.block_rows)
        inside = (row < end)[:, None] & within[None, :]
        address = row.to(tl.int64)[:, None] * c.width + column[None, :]
        slope = tl.load(dy + address, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + address, mask=inside, other=0.0).to(tl.float32)
        spread = tl.load(rstd + row, mask=row < end, other=0.0)[:, None]
        if c.centred:
            value -= tl.load(mean + row, mask=row < end, other=0.0)[:, None]
        normal = tl.where(inside, value * spread, 0.0)
        dweight += slope * normal
        scaled = slope * scale
        change = scaled - normal * (tl.sum(scaled * normal, 1) / c.width)[:, None]
        if c.centred:
            dbias += slope
            change -= (tl.sum(scaled, 1) / c.width)[:, None]
        _store_change(change * spread, dtotal, seed, draw, dresidual, dx, first, address, inside, c)
    place = tl.program_id(0) * c.width + column
    tl.store(dweights + place, tl.sum(dweight, 0), mask=within)
    if c.centred:
        tl.store(dbiases + place, tl.sum(dbias, 0), mask=within)


@triton.jit
def _store_change(change, dtotal, seed, draw, dresidual, dx, first, address, inside, c: tl.constexpr):
    if c.residual:
        change += tl.load(dtotal + address, mask=inside, other=0.0).to(tl.float32)
        tl.store(dresidual + address, change.to(dresidual.dtype.element_ty), mask=inside)
    if c.dropout is not None:
        change = _dropped(change, first, seed, draw, c)
    tl.store(dx + address, change.to(dx.dtype.element_ty), mask=inside)
