"""Softmax cross entropy of rows of logits, online over classes. `c` is a `CrossEntropyShape`.

A row of logits is read from memory once: if its gradient is also computed, the second read hits the cache.

Exponentials are powers of two. Of usual numbers one instruction makes an exponent, value · log₂ e - base: whatever base
is rounded to, it is the same for a whole sum, or as exact as a level is in f32. In rows with others, such as those
masked by the least number, the difference comes first, which is exact.
"""

import triton
import triton.language as tl

from dmc.kernels.jit.functions import widened

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
# Logits, levels and factors below these are usual.
_USUAL_PEAK = tl.constexpr(1024.0)
_USUAL_LEVEL = tl.constexpr(128.0)
_USUAL_FACTOR = tl.constexpr(1e18)
# Elements that one access moves at most.
_VECTOR = tl.constexpr(8)


@triton.jit
def _tile(logits, first, depth: tl.constexpr, masked: tl.constexpr, c: tl.constexpr):
    """Logits from number `first` on, f32 [depth, lanes]; of a masked tile those in whole vectors, then -inf."""
    column = first + tl.arange(0, depth)[:, None] * c.lanes + tl.arange(0, c.lanes)[None, :]
    mask = column < c.vectors if masked else None
    if c.kept:
        value = widened(tl.load(logits + column, mask=mask, eviction_policy="evict_last"))
    else:
        value = widened(tl.load(logits + column, mask=mask))
    return tl.where(column < c.vectors, value, float("-inf")) if masked else value


@triton.jit
def _last(logits, c: tl.constexpr):
    """The numbers of the classes after whole vectors, which they are, and their logits, then -inf. One vector."""
    column = c.vectors + tl.arange(0, _VECTOR)
    is_class = column < c.classes
    value = tl.load(logits + column, mask=is_class, other=float("-inf"))
    return column, is_class, value.to(tl.float32)


@triton.jit
def _online(value, peaks, bases, totals):
    """Of each lane the maximum, that times log₂ e, and the sum of exponentials relative to it, updated with a tile: no
    value moves between threads.

    Bases are maxima of rounded products, so that no compiler computes a product anew, exactly, where one is subtracted:
    then the difference of two that are equal would not be 0.
    """
    highest = tl.max(value, 0)
    new_bases = tl.maximum(bases, highest * LOG2_E)
    powers = tl.exp2(tl.fma(value, LOG2_E, -new_bases[None, :]))
    return tl.maximum(peaks, highest), new_bases, totals * tl.exp2(bases - new_bases) + tl.sum(powers, 0)


@triton.jit
def _plain(value, first, depth: tl.constexpr, c: tl.constexpr):
    """The sum of each lane's logits in a tile from class number `first` on."""
    column = first + tl.arange(0, depth)[:, None] * c.lanes + tl.arange(0, c.lanes)[None, :]
    return tl.sum(tl.where(column < c.vectors, value, 0.0), 0)


@triton.jit
def _usual_level(logits, c: tl.constexpr):
    """The log-sum-exp of a row, its maximum, at least -1024, and, to smooth labels, its sum.

    Whole tiles need no mask.
    """
    peaks = tl.full([c.lanes], -_USUAL_PEAK, tl.float32)
    bases = tl.full([c.lanes], -_USUAL_PEAK * LOG2_E, tl.float32)
    totals = tl.full([c.lanes], 0.0, tl.float32)
    plains = tl.full([c.lanes], 0.0, tl.float32)
    depth: tl.constexpr = c.block // c.lanes
    for first in tl.range(0, c.whole, c.block, num_stages=c.stages):
        value = _tile(logits, first, depth, False, c)
        peaks, bases, totals = _online(value, peaks, bases, totals)
        if c.smoothing > 0.0:
            plains += _plain(value, first, depth, c)
    if c.whole < c.vectors:
        value = _tile(logits, c.whole, c.tail_depth, True, c)
        peaks, bases, totals = _online(value, peaks, bases, totals)
        if c.smoothing > 0.0:
            plains += _plain(value, c.whole, c.tail_depth, c)
    peak, base, plain = tl.max(peaks, 0), tl.max(bases, 0), tl.sum(plains, 0)
    if c.vectors < c.classes:
        _, is_class, value = _last(logits, c)
        highest = tl.max(value, 0)
        peak, base = tl.maximum(peak, highest), tl.maximum(base, highest * LOG2_E)
        plain += tl.sum(tl.where(is_class, value, 0.0), 0)
    total = tl.sum(totals * tl.exp2(bases - base), 0)
    if c.vectors < c.classes:
        total += tl.sum(tl.exp2(tl.fma(value, LOG2_E, -base)), 0)
    # Without what the rounding of the base has added. The exponential of the maximum alone is 1.
    above = tl.log2(total) - tl.fma(peak, LOG2_E, -base)
    return peak + tl.where(above < 0.0, 0.0, above) * LN_2, peak, plain


@triton.jit
def _any_level(logits, c: tl.constexpr):
    """The log-sum-exp of a row of any numbers."""
    peak = tl.full([], float("-inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    for first in tl.range(0, c.classes, c.block, num_stages=c.stages):
        column = first + tl.arange(0, c.block)
        value = tl.load(logits + column, mask=column < c.classes, other=float("-inf")).to(tl.float32)
        new_peak = tl.maximum(peak, tl.max(value, 0))
        base = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        total = total * tl.exp2((peak - base) * LOG2_E) + tl.sum(tl.exp2((value - base) * LOG2_E), 0)
        peak = new_peak
    # As in PyTorch, a row without a finite logit has no softmax.
    return tl.where(peak == float("-inf"), float("nan"), peak + tl.log2(total) * LN_2)


@triton.jit
def _level(logits, c: tl.constexpr):
    """The log-sum-exp of a row, and, to smooth labels, its sum."""
    level, peak, plain = _usual_level(logits, c)
    if tl.abs(peak) >= _USUAL_PEAK:
        level = _any_level(logits, c)
    return level, plain


@triton.jit
def _picked(logits, target, c: tl.constexpr):
    """Whether a target is a class, and its logit; of another the first one."""
    valid = (target >= 0) & (target < c.classes)
    return valid, tl.load(logits + tl.where(valid, target, 0)).to(tl.float32)


@triton.jit
def _loss(logits, target, level, plain, c: tl.constexpr):
    """The loss of a row: NaN for a target out of range, 0 for an ignored one."""
    valid, picked = _picked(logits, target, c)
    loss = level - picked
    if c.smoothing > 0.0:
        loss = (1.0 - c.smoothing) * loss + c.smoothing * (level - plain / c.classes)
    return tl.where(target == c.ignore_index, 0.0, tl.where(valid, loss, float("nan")))


@triton.jit
def forward(logits, target, logsumexp, losses, c: tl.constexpr):
    """`logsumexp` and the loss of one row."""
    row = tl.program_id(0)
    place = logits + row.to(tl.int64) * c.logits_stride
    level, plain = _level(place, c)
    tl.store(logsumexp + row, level)
    tl.store(losses + row, _loss(place, tl.load(target + row), level, plain, c))


@triton.jit
def _slopes(value, level, factor, is_usual: tl.constexpr, c: tl.constexpr):
    """The gradients of logits, other than the target's."""
    rest: tl.constexpr = c.smoothing / c.classes
    if is_usual:
        # The factor is a power of two, too.
        slopes = tl.exp2(tl.fma(value, LOG2_E, tl.fma(-level, LOG2_E, tl.log2(factor))))
        return slopes - rest * factor if c.smoothing > 0.0 else slopes
    share = tl.exp2((value - level) * LOG2_E)
    return (share - rest if c.smoothing > 0.0 else share) * factor


@triton.jit
def _store(gradient, column, slopes, mask, c: tl.constexpr):
    narrow = slopes.to(gradient.dtype.element_ty)
    if c.kept:
        tl.store(gradient + column, narrow, mask=mask, cache_modifier=".cs")
    else:
        tl.store(gradient + column, narrow, mask=mask)


@triton.jit
def _row(logits, gradient, level, factor, is_usual: tl.constexpr, c: tl.constexpr):
    """The gradient of a row, as if it had no target. It may replace the logits in place: a thread reads a logit before
    it writes there."""
    for first in tl.range(0, c.whole, c.block, num_stages=c.stages):
        column = first + tl.arange(0, c.block)
        value = widened(tl.load(logits + column, eviction_policy="evict_first"))
        _store(gradient, column, _slopes(value, level, factor, is_usual, c), None, c)
    if c.whole < c.width:
        column = c.whole + tl.arange(0, c.tail_block)
        is_class = column < c.vectors
        value = widened(tl.load(logits + column, mask=is_class, eviction_policy="evict_first"))
        slopes = tl.where(is_class, _slopes(value, level, factor, is_usual, c), 0.0)
        last: tl.constexpr = c.vectors + _VECTOR if c.vectors < c.classes else c.vectors
        _store(gradient, column, slopes, is_class | ((column >= last) & (column < c.width)), c)
    if c.vectors < c.classes:
        column, is_class, value = _last(logits, c)
        slopes = tl.where(is_class, _slopes(value, level, factor, is_usual, c), 0.0)
        _store(gradient, column, slopes, column < c.width, c)


@triton.jit
def _gradient(logits, gradient, target, level, factor, c: tl.constexpr):
    valid, picked = _picked(logits, target, c)
    # As in PyTorch, a softmax that is NaN times no gradient is NaN.
    factor = tl.where(target == c.ignore_index, 0.0, factor)
    # And softmax times an infinite gradient, less that gradient, is NaN.
    own = tl.where(tl.abs(factor) == float("inf"), float("nan"), 1.0 - c.smoothing + c.smoothing / c.classes)
    # Otherwise a thread that writes the gradient over the logits could overtake one that still reads the target's.
    tl.debug_barrier()
    if gradient.dtype.element_ty == tl.float32:
        # What a level and a factor are rounded to in an exponent would show.
        _row(logits, gradient, level, factor, False, c)
    else:
        is_usual = (tl.abs(level) < _USUAL_LEVEL) & (factor > 1.0 / _USUAL_FACTOR) & (factor < _USUAL_FACTOR)
        if is_usual:
            _row(logits, gradient, level, factor, True, c)
        else:
            _row(logits, gradient, level, factor, False, c)
    # Only now, so that no block compares each number with the target.
    tl.debug_barrier()
    slope = (tl.exp2((picked - level) * LOG2_E) - own) * factor
    tl.store(gradient + target, slope.to(gradient.dtype.element_ty), mask=valid)


@triton.jit
def backward(dloss, logits, target, logsumexp, gradient, c: tl.constexpr):
    """The gradient of one row."""
    row = tl.program_id(0)
    factor = tl.load(dloss).to(tl.float32)
    place = logits + row.to(tl.int64) * c.logits_stride
    out = gradient + row.to(tl.int64) * c.gradient_stride
    _gradient(place, out, tl.load(target + row), tl.load(logsumexp + row), factor, c)


@triton.jit
def both(dloss, logits, target, logsumexp, losses, gradient, c: tl.constexpr):
    """`forward` and `backward` of one row, if the gradient of the loss is known in advance."""
    row = tl.program_id(0)
    wanted = tl.load(target + row)
    place = logits + row.to(tl.int64) * c.logits_stride
    level, plain = _level(place, c)
    tl.store(logsumexp + row, level)
    tl.store(losses + row, _loss(place, wanted, level, plain, c))
    factor = tl.load(dloss).to(tl.float32)
    _gradient(place, gradient + row.to(tl.int64) * c.gradient_stride, wanted, level, factor, c)


@triton.jit
def total(losses, loss, c: tl.constexpr):
    """The loss of all rows, summed in a fixed order. One program."""
    summed = tl.full([c.sum_block], 0.0, tl.float32)
    for first in range(0, c.rows, c.sum_block):
        row = first + tl.arange(0, c.sum_block)
        summed += tl.load(losses + row, mask=row < c.rows, other=0.0)
    tl.store(loss, tl.sum(summed, 0).to(loss.dtype.element_ty))
