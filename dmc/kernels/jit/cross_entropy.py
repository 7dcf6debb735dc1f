"""Softmax cross entropy of rows of logits, online over classes. `c` is a `CrossEntropyShape`.

A row of logits is read from memory once: if its gradient is also computed, the second read hits the cache.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _online(logits, first, block: tl.constexpr, masked: tl.constexpr, peak, total, plain, c: tl.constexpr):
    """Maximum, sum of exponentials relative to it, and sum, updated with a block of logits."""
    column = first + tl.arange(0, block)
    mask = column < c.classes if masked else None
    if c.kept:
        value = tl.load(logits + column, mask=mask, eviction_policy="evict_last").to(tl.float32)
    else:
        value = tl.load(logits + column, mask=mask).to(tl.float32)
    if masked:
        value = tl.where(column < c.classes, value, float("-inf"))
    new_peak = tl.maximum(peak, tl.max(value, 0))
    base = tl.where(new_peak == float("-inf"), 0.0, new_peak)
    total = total * tl.exp2((peak - base) * LOG2_E) + tl.sum(tl.exp2((value - base) * LOG2_E), 0)
    if c.smoothing > 0.0:
        plain += tl.sum(tl.where(column < c.classes, value, 0.0), 0)
    return new_peak, total, plain


@triton.jit
def _level(logits, c: tl.constexpr):
    """The log-sum-exp of a row, and the sum of its logits. Whole blocks need no mask, so that accesses are wide."""
    peak = tl.full([], float("-inf"), tl.float32)
    total = tl.full([], 0.0, tl.float32)
    plain = tl.full([], 0.0, tl.float32)
    for first in tl.range(0, c.whole, c.block, num_stages=c.stages):
        peak, total, plain = _online(logits, first, c.block, False, peak, total, plain, c)
    if c.whole < c.classes:
        peak, total, plain = _online(logits, c.whole, c.tail_block, True, peak, total, plain, c)
    # As in PyTorch, a row without a finite logit has no softmax.
    level = tl.where(peak == float("-inf"), float("nan"), peak + tl.log2(total) * LN_2)
    return level, plain


@triton.jit
def _loss(logits, target, level, plain, c: tl.constexpr):
    """The loss of a row: NaN for a target out of range, 0 for an ignored one."""
    valid = (target >= 0) & (target < c.classes)
    picked = tl.load(logits + tl.where(valid, target, 0)).to(tl.float32)
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
def _slope(
    logits,
    gradient,
    first,
    block: tl.constexpr,
    masked: tl.constexpr,
    target,
    level,
    factor,
    own,
    has_target: tl.constexpr,
    c: tl.constexpr,
):
    """The gradient of a block of logits. It may replace them in place: a thread reads a logit before it writes there.

    own: the share of the target in its distribution. has_target: whether the block may have it.
    """
    column = first + tl.arange(0, block)
    is_class = column < c.classes if masked else None
    mask = column < c.width if masked else None
    value = tl.load(logits + column, mask=is_class, eviction_policy="evict_first").to(tl.float32)
    share = tl.exp2((value - level) * LOG2_E)
    rest: tl.constexpr = c.smoothing / c.classes
    if has_target:
        share -= tl.where(column == target, own, rest)
    elif c.smoothing > 0.0:
        share -= rest
    change = share * factor
    if masked:
        change = tl.where(is_class, change, 0.0)
    narrow = change.to(gradient.dtype.element_ty)
    if c.kept:
        tl.store(gradient + column, narrow, mask=mask, cache_modifier=".cs")
    else:
        tl.store(gradient + column, narrow, mask=mask)


@triton.jit
def _gradient(logits, gradient, target, level, factor, c: tl.constexpr):
    # As in PyTorch, a softmax that is NaN times no gradient is NaN.
    factor = tl.where(target == c.ignore_index, 0.0, factor)
    # And softmax times an infinite gradient, less that gradient, is NaN.
    own = tl.where(tl.abs(factor) == float("inf"), float("nan"), 1.0 - c.smoothing + c.smoothing / c.classes)
    # Only one block has the target: the others need not compare each number.
    near = tl.where((target >= 0) & (target < c.whole), target // c.block * c.block, c.whole).to(tl.int32)
    for first in tl.range(0, near, c.block, num_stages=c.stages):
        _slope(logits, gradient, first, c.block, False, target, level, factor, own, False, c)
    if near < c.whole:
        _slope(logits, gradient, near, c.block, False, target, level, factor, own, True, c)
    for first in tl.range(near + c.block, c.whole, c.block, num_stages=c.stages):
        _slope(logits, gradient, first, c.block, False, target, level, factor, own, False, c)
    if c.whole < c.width:
        _slope(logits, gradient, c.whole, c.tail_block, True, target, level, factor, own, True, c)


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
    # Otherwise a thread that writes the gradient over the logits could overtake one that still reads its target's
    # logit.
    tl.debug_barrier()
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
