"""Sine, cosine and tangent of any angle: backends do the range reduction in f32, which is accurate for small angles
only.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dmc.importer.decompositions.functions import Function, widened

aten = torch.ops.aten


def _sin(x: Tensor) -> Tensor:
    quarter, rest = _reduced(x)
    # The sine of negative zero is negative zero.
    return torch.where(x == 0.0, x, _turned(quarter, rest))


def _cos(x: Tensor) -> Tensor:
    quarter, rest = _reduced(x)
    return _turned(quarter + 1.0, rest)


def _tan(x: Tensor) -> Tensor:
    return _sin(x) / _cos(x)


def _reduced(x: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest number of quarter turns, modulo four, and the remaining angle, at most an eighth of a turn.

    An f32 number times each part of 2 / π is exact in f64, and so is its remainder after whole turns.
    """
    wide = x.double()
    quarters = torch.zeros_like(wide)
    for part in _TWO_OVER_PI:
        product = wide * part
        quarters = quarters + (product - 4.0 * _nearest(0.25 * product))
    nearest = _nearest(quarters)
    return nearest.to(x.dtype), ((quarters - nearest) * (math.pi / 2.0)).to(x.dtype)


def _nearest(x: Tensor) -> Tensor:
    return torch.floor(x + 0.5)


def _turned(quarter: Tensor, rest: Tensor) -> Tensor:
    """The sine of this many quarter turns plus the remaining angle."""
    quarter = quarter - 4.0 * torch.floor(0.25 * quarter)
    is_odd = (quarter == 1.0) | (quarter == 3.0)
    size = torch.where(is_odd, _near_cos(rest), _near_sin(rest))
    return torch.where(quarter >= 2.0, -size, size)


# Between -π/4 and π/4, to half a unit in the last place of f32 (the coefficients of Cephes, by S. Moshier).
def _near_sin(x: Tensor) -> Tensor:
    z = x * x
    return x + x * z * (-1.6666654611e-1 + z * (8.3321608736e-3 + z * -1.9515295891e-4))


def _near_cos(x: Tensor) -> Tensor:
    z = x * x
    return 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5))


# Enough bits of 2 / π to reduce the largest f32 number, in parts whose product with its 24 bits is exact in the 53 bits
# of f64.
_PARTS, _BITS = 7, 29
_BITS_OF_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC5


def _parts() -> tuple[float, ...]:
    total = _BITS_OF_TWO_OVER_PI.bit_length()
    words = [_BITS_OF_TWO_OVER_PI >> (total - _BITS * (i + 1)) & ((1 << _BITS) - 1) for i in range(_PARTS)]
    return tuple(math.ldexp(word, -_BITS * (i + 1)) for i, word in enumerate(words))


_TWO_OVER_PI = _parts()


def _of_f32(function: Function) -> Function:
    wide = widened(function)
    return lambda x: NotImplemented if x.dtype == torch.float64 else wide(x)


OWN: dict[Any, Function] = {
    aten.sin.default: _of_f32(_sin),
    aten.cos.default: _of_f32(_cos),
    aten.tan.default: _of_f32(_tan),
}
