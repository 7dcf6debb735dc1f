"""Functions keep their digits near zero, for large operands and in narrow types, compiled, as PyTorch's do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import dmc

Function = Callable[[Tensor], Tensor]
FUNCTIONS: Mapping[str, Function] = {
    **{
        name: getattr(torch, name)
        for name in "sin cos tan sinh cosh asinh acosh atanh exp expm1 log1p log2 log10 sigmoid tanh rsqrt erf".split()
    },
    "elu": lambda x: functional.elu(x, alpha=0.5),
    "selu": functional.selu,
    "softshrink": functional.softshrink,
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.3),
    "power": lambda x: x.abs() ** x.flip(0).clamp(-9, 9),
    "root": lambda x: x.abs() ** 0.375,
    "atan2": lambda x: torch.atan2(x, x.flip(0)),
    "logaddexp": lambda x: torch.logaddexp(x, x.flip(0)),
    "logaddexp2": lambda x: torch.logaddexp2(x, x.flip(0)),
}
# By a number that no narrow type holds, and by sums of many: the same bits as eager's.
NARROW: Mapping[str, Function] = {
    "product": lambda x: x * 1.3,
    "quotient": lambda x: x / 1.3,
    "reciprocal": lambda x: 1.3 / x,
    "remainder": lambda x: x % 1.3,
    "fmod": lambda x: torch.fmod(x, 1.3),
    "floor": lambda x: torch.div(x, 1.3, rounding_mode="floor"),
    "trunc": lambda x: torch.div(x, 1.3, rounding_mode="trunc"),
    "multiple": lambda x: torch.add(x, x.flip(0), alpha=1.3),
    "sum": lambda x: x + 1.3,
    "power": lambda x: (x.abs() + 0.1).clamp(max=9) ** 1.3,
    "less": lambda x: (x.clamp(1.25, 1.35) < 1.3).to(x.dtype),
    "norm": lambda x: torch.linalg.vector_norm(x.clamp(-9, 9), 1),
    "distance": lambda x: functional.pairwise_distance(x.clamp(-9, 9)[None], x.flip(0).clamp(-9, 9)[None]),
    "pool": lambda x: functional.avg_pool1d(x.clamp(-9, 9)[None], 32),
}
# Units in the last place: of f32 the approximations of a backend have up to two, f16 and bf16 are rounded once.
UNITS = {torch.float32: 2.0, torch.float16: 1.01, torch.bfloat16: 1.01}
# A backend's own arctangent of a quotient, in f32.
COARSE = {"atan2": 10.0}


class Applied(nn.Module):
    """Gives what functions are of a parameter."""

    def __init__(self, functions: Mapping[str, Function], x: Tensor) -> None:
        super().__init__()
        self.x, self.functions = nn.Parameter(x), functions

    def forward(self, scale: Tensor) -> tuple[Tensor, list[Tensor]]:
        return scale * self.x.float().sum(), [function(self.x) for function in self.functions.values()]


def _loss(outputs: Any, target: Tensor) -> Any:
    return outputs


def _numbers(dtype: torch.dtype) -> Tensor:
    """Of all sizes, of both signs, and zero; in the reverse order they meet others than themselves.

    They fill the registers of a processor: of what is left over, eager rounds x + 1.3 · y in another way.
    """
    largest = 4.5 if dtype == torch.float16 else 36.0
    sizes = torch.cat(
        [torch.logspace(-min(largest, 4.0), largest, 90), torch.linspace(0.01, 20.0, 101), torch.zeros(1)]
    )
    return torch.cat([sizes, -sizes]).to(dtype)


def _compiled(functions: Mapping[str, Function], x: Tensor) -> dict[str, Tensor]:
    sgd, example = dmc.optim.SGD(lr=0.0), (torch.ones(()), torch.zeros(1))
    step = dmc.compile(Applied(functions, x), loss=_loss, optimizer=sgd, example=example, verify=False)
    outputs = [torch.tensor(np.asarray(each, np.float64)) for each in step(*example)[1]]
    return dict(zip(functions, outputs, strict=True))


def _units(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> Tensor:
    """How far apart elements are, in units of the last place; what is rounded to the same is not apart."""
    info = torch.finfo(dtype)
    # What is less than a unit beside 1e-6 would only show how numbers near nothing are flushed.
    scale = expected.abs().clamp(min=max(info.smallest_normal, 1e-6)) * info.eps
    same = (actual == expected.to(dtype).double()) | (actual.isnan() & expected.isnan())
    return torch.where(same, 0.0, (actual - expected).abs() / scale).nan_to_num(torch.inf)


@pytest.mark.parametrize("dtype", UNITS, ids=str)
def test_functions(dtype: torch.dtype) -> None:
    x = _numbers(dtype)
    for name, actual in _compiled(FUNCTIONS, x).items():
        units = _units(actual, FUNCTIONS[name](x.double()), dtype)
        worst = int(units.argmax())
        most = max(UNITS[dtype], COARSE.get(name, 0.0) if dtype == torch.float32 else 0.0)
        assert units[worst] <= most, f"{name}({x[worst]}) = {actual[worst]}, {units[worst]:.3g} units off"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_numbers(dtype: torch.dtype) -> None:
    x = _numbers(dtype)
    for name, actual in _compiled(NARROW, x).items():
        expected = NARROW[name](x).double()
        wrong = ~torch.isclose(actual, expected, 0.0, 0.0, equal_nan=True)
        assert not wrong.any(), f"{name}: {actual[wrong][:3]}, eager {expected[wrong][:3]}"
