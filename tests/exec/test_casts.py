"""Casts round, cut off and compare as in eager, whatever a kernel joins; arithmetic in bfloat16 rounds each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

import dmc

NAN, INF = float("nan"), float("inf")
# Ties to even and to odd, values that overflow bfloat16 and f16, and NaN.
VALUES = (
    0.1,
    1 / 3,
    1 + 2**-8,
    1 + 3 * 2**-8,
    -2.7,
    255.9,
    127.5,
    -129.0,
    65504.0,
    70000.0,
    3.4e38,
    NAN,
    INF,
    -INF,
    -0.0,
)
FEW = 8  # These fit into every integer type but the smallest.

CASES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "rounds_to_bf16": lambda x: x.bfloat16().float(),
    "rounds_to_bf16_inside": lambda x: (x * 3.0).bfloat16().float() - x * 3.0,
    "rounds_to_bf16_for_a_comparison": lambda x: x.bfloat16() == x,
    "rounds_to_bf16_for_integers": lambda x: (x[:FEW] * 100.0).bfloat16().int(),
    "rounds_each_operation_in_bf16": lambda x: (x.bfloat16() * x.bfloat16() + x.bfloat16()).float(),
    "rounds_each_function_in_bf16": lambda x: (x[:FEW].bfloat16().abs().sqrt().exp() - 1.0).float(),
    "adds_up_bf16_wide": lambda x: x[:FEW].bfloat16().sum().float(),
    "rounds_to_f16": lambda x: x.half().float(),
    "bf16_is_true": lambda x: x.bfloat16().bool(),
    "float_is_true": lambda x: x.bool().float(),
    "cuts_off_to_int32": lambda x: x[:FEW].int().float(),
    "cuts_off_to_int64": lambda x: (x[:FEW] * 1e6).long(),
    "wraps_to_int8": lambda x: (x[:FEW] * 1000.0).int().to(torch.int8),
    "int64_rounds_to_float": lambda x: ((x[:FEW] * 0.0).long() + 16777217).float(),
    "int64_rounds_to_bf16": lambda x: ((x[:FEW] * 0.0).long() + 257).bfloat16(),
    "maximum_of_integers": lambda x: torch.maximum((x[:FEW] * 2.0).int(), (x[:FEW] * -3.0).int()),
    "minimum_of_integers": lambda x: torch.minimum((x[:FEW] * 2.0).long(), (x[:FEW] * -3.0).long()),
    "maximum_of_bools": lambda x: torch.maximum(x > 0.0, x < 1.0),
    "minimum_of_bools": lambda x: torch.minimum(x > 0.0, x < 1.0),
    "maximum_of_both": lambda x: torch.maximum(x, (x * 0.0 == 0.0).int()),
    "clamps_integers": lambda x: x[:FEW].long().clamp(-1, 1),
    "clamps_integers_by_floats": lambda x: x[:FEW].long().clamp(-0.5, 0.5),
    "clamps_integers_by_tensors": lambda x: x[:FEW].long().clamp(torch.zeros(FEW).long(), torch.ones(FEW).long()),
    "largest_integer": lambda x: x[:FEW].int().amax(),
    "smallest_integer": lambda x: x[:FEW].int().amin(),
    "integers_are_finite": lambda x: x[:FEW].int().isfinite() & ~x[:FEW].int().isnan(),
    "sign_of_integers": lambda x: x[:FEW].int().sign(),
}


class Casts(nn.Module):
    """Every case, of inputs to which minus zero is added: it changes nothing, and gives the step a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.zero = nn.Parameter(torch.tensor(-0.0))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = x + self.zero
        return {name: case(y) for name, case in CASES.items()}


def _loss(outputs: Mapping[str, Tensor], scale: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    return (outputs["rounds_to_bf16"] * scale).sum(), {name: value.detach() for name, value in outputs.items()}


def test_casts() -> None:
    batch = (torch.tensor(VALUES), torch.ones(1))
    model, sgd = Casts(), dmc.optim.SGD(lr=0.0)
    _, expected = _loss(model(batch[0]), batch[1])
    step = dmc.compile(model, loss=_loss, optimizer=sgd, example=batch)
    results = step(*batch)[1]
    assert [name for name in CASES if not _is_same(np.asarray(results[name]), expected[name])] == []


def _is_same(actual: np.ndarray, expected: Tensor) -> bool:
    if expected.dtype == torch.bfloat16:
        return np.array_equal(actual.astype(np.float32), expected.float().numpy(), equal_nan=True)
    reference = expected.numpy()
    return actual.dtype == reference.dtype and np.array_equal(actual, reference, equal_nan=reference.dtype.kind == "f")
