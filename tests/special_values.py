"""Special numbers, and every operator of one and of two floats that compiles, by PyTorch's own tables (`op_db`).

Not in the tables' names: what does not compile (`docs/coverage.md`), conversions, complex numbers, random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.testing._internal.common_methods_invocations import binary_ufuncs, unary_ufuncs

Case = Callable[..., Tensor]
# The domain, with both signs: zero; the smallest number, subnormal ones, the smallest normal one; small numbers; around
# one; halves and whole numbers; where exponentials overflow and vanish; large ones, whole and not; the largest;
# infinity.
FLOAT32 = (
    0.0, 2.0**-149, 3 * 2.0**-149, 2.0**-129, 3 * 2.0**-128, 2.0**-126, 2.0**-124, 1e-30, 1e-8, 2.0**-20, 1e-4,
    0.3, 0.5, 0.999, 1.0, 1.001, 1.5, 2.0, 2.5, 3.0, 4.5, 5.0, 7.0, 10.0, 20.5, 33.0, 87.6, 88.5, 89.0, 100.0, 103.5,
    126.5, 140.0, 148.5, 1000.5, 2049.0, 2.0**20 + 0.5, 2.0**24 - 1, 2.0**24 + 2, 2.0**31, 1e10, 2.0**63, 1e15, 1e20,
    1e30, 2.0**126, 3.4028234663852886e38, math.inf,
)  # fmt: skip
# In pairs, fewer.
OTHERS = (
    0.0, 2.0**-149, 2.0**-127, 2.0**-126, 1e-8, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0, 88.5, 1000.5, 2.0**24 + 2, 1e20,
    3.4028234663852886e38, math.inf,
)  # fmt: skip
UNARY = (
    "abs acos acosh asin asinh atan atanh ceil positive cos cosh deg2rad exp frac floor i0 log1p log log10 log2"
    " logical_not nn.functional.relu nn.functional.elu nn.functional.celu nn.functional.selu nn.functional.silu"
    " nn.functional.hardsigmoid nn.functional.logsigmoid nn.functional.mish nn.functional.softsign"
    " nn.functional.tanhshrink nn.functional.softshrink nn.functional.hardshrink nn.functional.hardtanh"
    " nn.functional.relu6 neg rad2deg round sin sinc sinh sign sgn tan tanh trunc exp2 expm1 nan_to_num reciprocal"
    " rsqrt sqrt square angle isfinite isinf isposinf isneginf isnan sigmoid digamma erf erfc erfinv lgamma logit"
    " nn.functional.softplus special.i0e special.i1 special.i1e special.ndtr special.entr special.ndtri"
    " special.log_ndtr special.erfcx"
).split()
BINARY = (
    "add sub mul atan2 copysign div.no_rounding_mode div.trunc_rounding div.floor_rounding eq fmax fmin fmod remainder"
    " floor_divide ge gt le lt logaddexp maximum minimum logical_and logical_or logical_xor heaviside isclose ne pow"
    " rsub hypot xlogy special.xlog1py"
).split()
MORE_UNARY: Mapping[str, Case] = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.1),
    "hardswish": functional.hardswish,
    "threshold": lambda x: functional.threshold(x, 0.2, 5.0),
    "frexp": lambda x: torch.frexp(x)[0],
    "mvlgamma": lambda x: torch.mvlgamma(x, 3),
    "trigamma": lambda x: torch.polygamma(1, x),
    "polygamma": lambda x: torch.polygamma(2, x),
    "round_to": lambda x: torch.round(x, decimals=3),
    "cube": lambda x: x**3,
    "root": lambda x: x**0.5,
    "power": lambda x: x.abs() ** 1.3,
    "power_of_two": lambda x: 2.0**x,
    "quotient": lambda x: 1.3 / x,
    "remainder_by_number": lambda x: x % 1.3,
}
MORE_BINARY: Mapping[str, Case] = {
    "lerp": lambda x, y: torch.lerp(x, y, 0.25),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.5),
    "clamp": lambda x, y: torch.clamp(x, y, y + 1.0),
    "mse_loss": lambda x, y: functional.mse_loss(x, y, reduction="none"),
    "smooth_l1_loss": lambda x, y: functional.smooth_l1_loss(x, y, reduction="none"),
    "huber_loss": lambda x, y: functional.huber_loss(x, y, reduction="none"),
}


def operators(count: int, dtype: torch.dtype) -> dict[str, Case]:
    """Those of one operand, or of two, that eager has for a type, by name."""
    table, names, more = (unary_ufuncs, UNARY, MORE_UNARY) if count == 1 else (binary_ufuncs, BINARY, MORE_BINARY)
    found = {_name(each): each for each in table}
    return {**{name: found[name].op for name in names if dtype in found[name].dtypes}, **more}


def _name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


def numbers(count: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Each number of the domain, or each pair, rounded to a type."""
    every = _both_signs(FLOAT32, dtype)
    if count == 1:
        return (every,)
    others = _both_signs(OTHERS, dtype)
    return others.repeat_interleave(len(others)), others.repeat(len(others))


def _both_signs(values: Sequence[float], dtype: torch.dtype) -> Tensor:
    positive = torch.tensor(values, dtype=dtype)
    return torch.cat([positive, -positive, torch.tensor([math.nan], dtype=dtype)])
