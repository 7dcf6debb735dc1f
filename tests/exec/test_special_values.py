"""Operators on special numbers, compiled, beside eager's: subnormal numbers, poles, the largest ones, NaN, infinities.

A result is right if it is eager's in its own type, or eager's in float64, rounded: where eager's vectors are wrong (the
remainder by a much smaller number, which they make NaN; `cosh` and `gelu` where only the result's parts overflow).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dmc
from tests.large import large
from tests.special_values import Case, numbers, operators

# Units of the last place of the result, or of one where terms of the size of one cancel.
UNITS = {torch.float32: 64.0, torch.bfloat16: 2.0}
# The sign of a zero is not compared: of two zeros eager's vectors give the second, its single numbers the first; and
# eager's own functions of minus zero differ in it.
SIGNS_OF_ZERO = frozenset("fmax fmin maximum minimum clamp erf special.i1 special.i1e nn.functional.logsigmoid".split())
# Why a result may differ, by operator.
LEFT: dict[str, str] = {
    "gelu": "oneDNN's is NaN of infinity, and infinite of the largest number",
    "gelu_tanh": "1 + tanh x cancels far below, in eager, too",
    "polygamma": "eager loses it between large poles, in float64, too",
    "mvlgamma": "a sum of functions of x - ½ and x - 1, rounded between in narrow types",
}


class Applied(nn.Module):
    """Gives what operators are of the inputs."""

    def __init__(self, cases: dict[str, Case]) -> None:
        super().__init__()
        self.cases, self.unused = cases, nn.Parameter(torch.zeros(()))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        return self.unused * 1.0, [case(*inputs) for case in self.cases.values()]


def _loss(outputs: Any, target: Tensor) -> Any:
    return outputs


def _wrong(actual: Tensor, expected: Tensor, dtype: torch.dtype, signs: bool) -> Tensor:
    info, right = torch.finfo(dtype), expected.double()
    unit = torch.maximum(right.abs(), torch.ones_like(right)) * info.eps
    # Below one, a relative error is asked for where nothing of the size of one was subtracted.
    close = (actual - right).abs() <= UNITS[dtype] * torch.where(right.abs() < 1e-6, 1e-6 * info.eps, unit)
    same = (actual == right) | (actual.isnan() & right.isnan()) | (close & right.isfinite())
    return ~same | (signs & (actual == 0.0) & (right == 0.0) & (actual.signbit() != right.signbit()))


def _compare(count: int, dtype: torch.dtype) -> None:
    cases, inputs = operators(count, dtype), numbers(count, dtype)
    example = (*inputs, torch.zeros(1))
    step = dmc.compile(Applied(cases), loss=_loss, optimizer=dmc.optim.SGD(lr=0.0), example=example, verify=False)
    outputs = [torch.from_numpy(np.asarray(each).astype(np.float64)) for each in step(*example)[1]]
    faults: list[str] = []
    for (name, case), actual in zip(cases.items(), outputs, strict=True):
        near, wide = case(*inputs), case(*(each.double() for each in inputs)).to(dtype)
        signs = name not in SIGNS_OF_ZERO
        wrong = _wrong(actual, near, dtype, signs) & _wrong(actual, wide, dtype, signs)
        if bool(wrong.any()) and name not in LEFT:
            at = int(wrong.nonzero()[0])
            given = ", ".join(str(each[at].item()) for each in inputs)
            faults.append(f"{name}({given}) = {actual[at]}, eager {near[at]} ({int(wrong.sum())} places)")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("count", [1, 2], ids=["unary", "binary"])
def test_special_numbers(count: int) -> None:
    _compare(count, torch.float32)


@large
@pytest.mark.parametrize("count", [1, 2], ids=["unary", "binary"])
def test_special_numbers_of_few_digits(count: int) -> None:
    _compare(count, torch.bfloat16)
