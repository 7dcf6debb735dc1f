"""Updates and norms of many tensors in one launch. `c` is a `ManyShape`; a program takes one row of a table, a chunk.

A row holds the address of the chunk in each column, then its number of elements (`dmc.kernels.recipe.Table`).
"""

import triton
import triton.language as tl


@triton.jit
def _places(row, column: tl.constexpr, dtype: tl.constexpr, place):
    """Addresses of elements of the chunk in a column."""
    # Chunks begin at multiples of 16 bytes, so that accesses can be wide.
    address = tl.multiple_of(tl.load(row + column), 16)
    if dtype == "f32":
        pointer = address.to(tl.pointer_type(tl.float32))
    elif dtype == "bf16":
        pointer = address.to(tl.pointer_type(tl.bfloat16))
    else:
        tl.static_assert(dtype == "f16", "a type that tables do not hold")
        pointer = address.to(tl.pointer_type(tl.float16))
    return pointer + place


@triton.jit
def _load(row, column: tl.constexpr, dtype: tl.constexpr, place, count):
    return tl.load(_places(row, column, dtype, place), mask=place < count, other=0.0).to(tl.float32)


@triton.jit
def _store(row, column: tl.constexpr, dtype: tl.constexpr, place, count, value):
    address = _places(row, column, dtype, place)
    tl.store(address, value.to(address.dtype.element_ty), mask=place < count)


@triton.jit
def adam(table, clip, lr, apply, correction1, correction2_sqrt, c: tl.constexpr):
    """New parameters and moments of a chunk, and the parameters once more as a copy in another type, if there is one.

    Columns: parameter, gradient, first and second moment; the new parameter and moments; the copy.
    """
    row = table + tl.program_id(0).to(tl.int64) * c.table_width
    count = tl.load(row + (c.table_width - 1))
    place = tl.arange(0, c.block)
    rate = tl.load(lr)
    accepted = tl.load(apply) != 0
    old = _load(row, 0, c.parameter, place, count)
    old_first = _load(row, 2, c.moment, place, count)
    old_second = _load(row, 3, c.moment, place, count)
    slope = _load(row, 1, c.gradient, place, count) * tl.load(clip)
    if not c.decoupled:
        slope += old * c.decay
    start = old * (1.0 - rate * c.decay) if c.decoupled else old
    first = old_first + (slope - old_first) * c.one_minus_beta1
    second = old_second * c.beta2 + slope * slope * c.one_minus_beta2
    spread = tl.sqrt(second) / tl.load(correction2_sqrt) + c.eps
    new = tl.where(accepted, start - (rate / tl.load(correction1)) * (first / spread), old)
    _store(row, 4, c.parameter, place, count, new)
    _store(row, 5, c.moment, place, count, tl.where(accepted, first, old_first))
    _store(row, 6, c.moment, place, count, tl.where(accepted, second, old_second))
    if c.copy != "":
        _store(row, 7, c.copy, place, count, new)


@triton.jit
def squares(table, parts, c: tl.constexpr):
    """The sum of the squares of a chunk."""
    row = table + tl.program_id(0).to(tl.int64) * c.table_width
    count = tl.load(row + (c.table_width - 1))
    total = tl.full([c.block], 0.0, tl.float32)
    for first in range(0, c.chunk, c.block):
        value = _load(row, 0, c.gradient, first + tl.arange(0, c.block), count)
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
