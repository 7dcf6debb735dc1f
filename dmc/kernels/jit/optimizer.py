"""Updates and norms of many tensors in one launch. `c` is a `ManyShape`; a program takes one row of a table, a chunk.

A row holds the address of the chunk in each column, then its number of elements (`dmc.kernels.recipe.Table`).
"""

import triton
import triton.language as tl


@triton.jit
def _places(row, column: tl.constexpr, place, c: tl.constexpr):
    """Addresses of elements of the chunk in a column."""
    address = tl.load(row + column)
    dtype: tl.constexpr = c.types[column]
    if dtype == "f32":
        pointer = address.to(tl.pointer_type(tl.float32))
    elif dtype == "bf16":
        pointer = address.to(tl.pointer_type(tl.bfloat16))
    else:
        tl.static_assert(dtype == "f16", "a type that tables do not hold")
        pointer = address.to(tl.pointer_type(tl.float16))
    # Chunks begin at multiples of 16 bytes, so that accesses can be wide.
    return tl.multiple_of(pointer, 16) + place


@triton.jit
def _load(row, column: tl.constexpr, place, count, c: tl.constexpr):
    mask = None if count is None else place < count
    return tl.load(_places(row, column, place, c), mask=mask).to(tl.float32)


@triton.jit
def _store(row, column: tl.constexpr, place, count, value, c: tl.constexpr):
    address = _places(row, column, place, c)
    tl.store(address, value.to(address.dtype.element_ty), mask=None if count is None else place < count)


@triton.jit
def adam(table, clip, lr, apply, correction1, correction2_sqrt, c: tl.constexpr):
    """New parameters and moments of a chunk, and optionally a copy of the parameters in another type.

    Columns: parameter, gradient, first and second moment; the new parameter and moments; the copy.
    """
    row = table + tl.program_id(0).to(tl.int64) * c.table_width
    count = tl.load(row + (c.table_width - 1))
    # Whole chunks, which are most, need no mask, so that accesses are wide.
    if count == c.block:
        _adam(row, None, clip, lr, apply, correction1, correction2_sqrt, c)
    else:
        _adam(row, count, clip, lr, apply, correction1, correction2_sqrt, c)


@triton.jit
def _adam(row, count, clip, lr, apply, correction1, correction2_sqrt, c: tl.constexpr):
    place = tl.arange(0, c.block)
    rate = tl.load(lr)
    accepted = tl.load(apply) != 0
    old = _load(row, 0, place, count, c)
    old_first = _load(row, 2, place, count, c)
    old_second = _load(row, 3, place, count, c)
    slope = _load(row, 1, place, count, c) * tl.load(clip)
    if not c.decoupled:
        slope += old * c.decay
    start = old * (1.0 - rate * c.decay) if c.decoupled else old
    first = old_first + (slope - old_first) * c.one_minus_beta1
    second = old_second * c.beta2 + slope * c.one_minus_beta2 * slope
    spread = tl.sqrt(second) / tl.load(correction2_sqrt) + c.eps
    new = tl.where(accepted, start - (rate / tl.load(correction1)) * (first / spread), old)
    _store(row, 4, place, count, new, c)
    _store(row, 5, place, count, tl.where(accepted, first, old_first), c)
    _store(row, 6, place, count, tl.where(accepted, second, old_second), c)
    if c.copied:
        _store(row, 7, place, count, new, c)


@triton.jit
def squares(table, parts, c: tl.constexpr):
    """The sum of the squares of a chunk."""
    row = table + tl.program_id(0).to(tl.int64) * c.table_width
    count = tl.load(row + (c.table_width - 1))
    total = tl.full([c.block], 0.0, tl.float32)
    if count == c.chunk:
        for first in range(0, c.chunk, c.block):
            value = _load(row, 0, first + tl.arange(0, c.block), None, c)
            total += value * value
    else:
        for first in range(0, c.chunk, c.block):
            place = first + tl.arange(0, c.block)
            value = tl.where(place < count, _load(row, 0, place, count, c), 0.0)
            total += value * value
    tl.store(parts + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def norm(parts, before, out, c: tl.constexpr):
    """`before` and the sum of all parts, in a fixed order. One program."""
    total = tl.full([c.block], 0.0, tl.float32)
    for first in range(0, c.parts, c.block):
        place = first + tl.arange(0, c.block)
        total += tl.load(parts + place, mask=place < c.parts, other=0.0)
    tl.store(out, tl.load(before) + tl.sum(total, 0))
