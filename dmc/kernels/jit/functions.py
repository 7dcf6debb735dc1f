"""Functions of f32 that Triton's language lacks or approximates coarsely, to a few units in the last place.

Built only from operations that its interpreter also supports. NaN gives NaN. `multiply` and others are for reductions.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import libdevice

_LOG2_E = tl.constexpr(1.4426950408889634)
# ln 2 in f32, and what that lacks.
_LN_2_NEAREST = tl.constexpr(0.693147182464599609375)
_LN_2_REST = tl.constexpr(-1.904654299957768e-09)
# 128 · ln 2, from which on eˣ is infinite, and a number below which it is zero.
_MOST_EXPONENT = tl.constexpr(88.72283935546875)
_LEAST_EXPONENT = tl.constexpr(-104.0)
# ln 2 in two parts, of which the first times a small integer is exact.
_LN_2_HIGH = tl.constexpr(0.693359375)
_LN_2_LOW = tl.constexpr(-2.12194440e-4)
# The interpreter knows no machine instructions.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def exp(x):
    """eˣ as a power of two; the rounding error of the exponent is compensated."""
    if x.dtype == tl.float64:
        return tl.exp(x)
    # Beyond these, powers are infinite or zero; what an infinite one lacks must not be negative.
    x = minimum(maximum(x, _LEAST_EXPONENT), _MOST_EXPONENT)
    exponent = x * _LOG2_E
    lost = tl.fma(-1.0 * exponent, _LN_2_REST, tl.fma(-1.0 * exponent, _LN_2_NEAREST, x))
    power = tl.exp2(exponent)
    return tl.fma(power, lost, power)


@triton.jit
def expm1(x):
    """eˣ - 1, without cancellation near 0."""
    if x.dtype == tl.float64:
        return tl.where(tl.abs(x) < 1.0, _expm1(x), tl.exp(x) - 1.0)
    return _expm1(tl.where(x > 89.0, 89.0, tl.where(x < -105.0, -105.0, x)))


@triton.jit
def _expm1(x):
    power = tl.floor(x * _LOG2_E + 0.5)
    rest = (x - power * _LN_2_HIGH) - power * _LN_2_LOW
    series = 1.0 / 5040.0 + rest * (1.0 / 40320.0)
    series = 1.0 / 120.0 + rest * (1.0 / 720.0 + rest * series)
    series = 0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0 + rest * series))
    small = rest + rest * rest * series
    half = tl.floor(power * 0.5)
    first, second = tl.exp2(half), tl.exp2(power - half)
    # In this order nothing overflows before the result does.
    large = (small * first) * second + (first * second - 1.0)
    return tl.where(power == 0.0, small, tl.where(power > 126.0, (small + 1.0) * first * second, large))


@triton.jit
def log1p(x):
    """ln(1 + x): the rounding error of 1 + x is compensated."""
    whole = 1.0 + x
    # Subtracting the larger term of 1 + x is exact.
    lost = tl.where(x >= 1.0, 1.0 - (whole - x), x - (whole - 1.0))
    exact = tl.log(whole) + lost / whole
    plain = (whole <= 0.0) | (whole == float("inf"))
    return tl.where((whole == 1.0) | (x != x), x, tl.where(plain, tl.log(whole), exact))


@triton.jit
def tanh(x):
    """The hyperbolic tangent."""
    size = tl.abs(x)
    square = x * x
    series = -5.70498872745e-3 * square + 2.06390887954e-2
    series = (series * square - 5.37397155531e-2) * square + 1.33314422036e-1
    series = (series * square - 3.33332819422e-1) * square * x + x
    # The larger the argument is, the less the error of this power matters.
    small = tl.exp2(size * (-2.0 * _LOG2_E))
    large = (1.0 - small) / (1.0 + small)
    return tl.where(size < 0.625, series, tl.where(x < 0.0, -1.0 * large, large))


@triton.jit
def tanh_beside_one(x):
    """The hyperbolic tangent with an absolute error of f32 at 1: near 0 its relative error is larger."""
    return 2.0 * inverse(1.0 + tl.exp2(x * (-2.0 * _LOG2_E))) - 1.0


@triton.jit
def erf_beside_one(x):
    """The error function with an absolute error of f32 at 1."""
    made = 1.0 - tl.exp2(_log2_of_erfc(tl.abs(x)))
    return tl.where(x < 0.0, -1.0 * made, made)


@triton.jit
def share_by_power(x):
    """1 ÷ (1 + 2ˣ), of x = -2 log₂ e · y the share of tanh y, with an absolute error of f32 at 1."""
    return inverse(1.0 + tl.exp2(x))


@triton.jit
def without_square(share):
    """s - s², of a number from 0 to 1, by one instruction."""
    return tl.fma(-1.0 * share, share, share)


@triton.jit
def share_by_erf(x):
    """0.5 · (1 + erf x), with an absolute error of f32 at 1."""
    tail = tl.exp2(_log2_of_erfc(tl.abs(x)) - 1.0)
    return tl.where(x < 0.0, tail, 1.0 - tail)


@triton.jit
def _log2_of_erfc(size):
    """log₂(1 - erf x) for x ≥ 0: a polynomial, fitted where that is not lost beside 1. One slow operation makes of it
    what quotients need two for.
    """
    power = 4.455077287275344e-4 - 4.535860352916643e-5 * size
    power = power * size - 1.4894419582560658e-3
    power = power * size - 7.74629064835608e-4
    power = power * size + 2.825368009507656e-2
    power = power * size - 0.1484816074371338
    power = power * size - 0.9184163808822632
    power = power * size - 1.6279085874557495
    return power * size


@triton.jit
def inverse(x):
    """1 ÷ x, to a unit in the last place."""
    if _INTERPRETED:
        return 1.0 / x
    return tl.inline_asm_elementwise("rcp.approx.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)


@triton.jit
def nearest(x):
    """The nearest number of bf16, in f32."""
    if _INTERPRETED or x.numel == 1:
        return x.to(tl.bfloat16).to(tl.float32)
    else:  # noqa: RET505 Triton compiles what is behind a return: a single number has no other for its pair.
        text: tl.constexpr = """
            cvt.rn.bf16x2.f32 $0, $3, $2;
            and.b32 $1, $0, 0xffff0000;
            shl.b32 $0, $0, 16;
        """
        return tl.inline_asm_elementwise(text, "=r,=r,r,r", [x], tl.float32, is_pure=True, pack=2)


@triton.jit
def widened(x):
    """The same numbers in f32. Of bf16 two are in one register, and each takes one instruction."""
    if _INTERPRETED or x.dtype != tl.bfloat16 or x.numel == 1:
        return x.to(tl.float32)
    else:  # noqa: RET505
        text: tl.constexpr = """
            shl.b32 $0, $2, 16;
            and.b32 $1, $2, 0xffff0000;
        """
        return tl.inline_asm_elementwise(text, "=r,=r,r", [x], tl.float32, is_pure=True, pack=2)


@triton.jit
def power(x, y):
    """xʸ like C's `pow`, via f64; `y` may be a number."""
    y = tl.zeros_like(x) + y
    exact, wide = tl.abs(x).to(tl.float64), y.to(tl.float64)
    size = tl.exp2(wide * tl.log2(exact)).to(y.dtype)
    is_whole = tl.floor(y) == y
    is_odd = is_whole & (tl.floor(y * 0.5) * 2.0 != y)
    negative = (x < 0.0) | ((x == 0.0) & (1.0 / x < 0.0))
    signed = tl.where(negative & is_odd, -1.0 * size, size)
    invalid = (x < 0.0) & (x != float("-inf")) & ~is_whole
    plain = tl.where(invalid, float("nan"), signed)
    # -1 to an infinite power is 1, too.
    settled = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (tl.abs(y) == float("inf")))
    return tl.where(settled, 1.0, plain)


@triton.jit
def rest(x, y):
    """The remainder of division, as C's `fmod`. Triton's `%` is inexact for large quotients, and x for infinities."""
    return libdevice.fmod(x, y)


@triton.jit
def multiply(a, b):
    """The product."""
    return a * b


@triton.jit
def maximum(a, b):
    """The larger; NaN if one is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(a, b):
    """The smaller; NaN if one is."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def maximum_number(a, b):
    """The larger; a number if one is."""
    return tl.maximum(a, b)


@triton.jit
def minimum_number(a, b):
    """The smaller; a number if one is."""
    return tl.minimum(a, b)


@triton.jit
def both(a, b):
    """The bits that are set in both."""
    return a & b


@triton.jit
def either(a, b):
    """The bits that are set in one."""
    return a | b


@triton.jit
def bits(words, width: tl.constexpr):
    """Whether each bit of a tile of words is set: along the last axis, `width` elements for each."""
    place = tl.arange(0, width)
    if len(words.shape) == 1:
        bit = (words[:, None] >> place[None, :]) & 1
        shape: tl.constexpr = (words.shape[0] * width,)
    else:
        bit = (words[:, :, None] >> place[None, None, :]) & 1
        shape: tl.constexpr = (words.shape[0], words.shape[1] * width)
    return (bit != 0).reshape(shape)
