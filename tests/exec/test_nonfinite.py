"""NaN, infinities and signed zeros mean what they mean in PyTorch: in form imported, and in the code for the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc._mlir import ir
from dmc.importer.forward.precision import Precision
from tests.compiled import clone_state, model_state, train
from tests.eager import EagerTrainer
from tests.imported import interpreted_step
from tests.large import large
from tests.nonfinite import GROUPS, Outcome, Sweep, differences, eager, loss, numbers
from tests.nonfinite_cases import NAN, Case

# Of bfloat16, a few roundings of 0.4 %: where eager rounds between the operations of a gradient differs.
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
PRECISION = {torch.float32: Precision.FP32, torch.bfloat16: Precision.BF16}
# What a code generator could get wrong: comparisons, choices, reductions, and what it has functions of its own for.
COMPILED = {
    "elementwise": "eq_self ne_self ge_self eq not_lt isfinite isnan where_lt maximum fmin clamp clamp_tensors relu"
    " relu6 atan2 leaky_relu gelu silu softplus tanh elu mish div_floor fmod sign sqrt exp log log1p expm1 erf"
    " nan_to_num",
    "reductions": "amax amin any_isnan all_isfinite sum var softmax log_softmax logsumexp layer_norm cross_entropy"
    " matmul attention attention_causal_nan attention_mask attention_bias softmax_masked max_pool2d max_pool2d_dilated"
    " norm_inf",
}
# With bfloat16, eager rounds between the factors of a gradient that overflows, or nearly vanishes.
ROUNDED = {"glu", "attention_bias"}


@pytest.mark.parametrize("group", GROUPS)
def test_imported(group: str, context: ir.Context) -> None:
    _assert_imported(group, GROUPS[group], torch.float32, context)


# The quick one below has a third of the cases.
@large
@pytest.mark.parametrize("group", GROUPS)
def test_imported_in_bf16(group: str, context: ir.Context) -> None:
    _assert_imported(group, GROUPS[group], torch.bfloat16, context)


@pytest.mark.parametrize("group", GROUPS)
def test_some_imported_in_bf16(group: str, context: ir.Context) -> None:
    _assert_imported(group, _compiled(group), torch.bfloat16, context)


def _compiled(group: str) -> dict[str, Case]:
    return {name: GROUPS[group][name] for name in COMPILED[group].split()}


def _assert_imported(group: str, cases: Mapping[str, Case], dtype: torch.dtype, context: ir.Context) -> None:
    cases = _without(cases, ROUNDED if dtype == torch.bfloat16 else set())
    x, y = numbers(group, dtype)
    model = Sweep(cases, x.shape, dtype)
    example = [x, y, torch.zeros(1, dtype=dtype)]
    outputs, parameters = interpreted_step(model, loss, example, context, PRECISION[dtype])
    results = {name: outputs[f"aux{index}"] for index, name in enumerate(cases)}
    actual = Outcome(results, (-parameters["p"], -parameters["q"]))
    assert differences(cases, eager(cases, x, y), actual, TOLERANCE[dtype]) == []


@pytest.mark.parametrize("group", GROUPS)
def test_compiled(group: str) -> None:
    cases = _compiled(group)
    x, y = numbers(group, torch.float32)
    example = (x, y, torch.zeros(1))
    model, optimizer = Sweep(cases, x.shape, x.dtype), dmc.optim.SGD(lr=1.0)
    # Verification compares with eager as it is: with oneDNN, whose GELU of infinity is NaN.
    step = dmc.compile(model, loss=loss, optimizer=optimizer, example=example, verify=False)
    _, results = step(*example)
    state = model_state(step)
    actual = Outcome({name: torch.as_tensor(np.asarray(results[name])) for name in cases}, (-state["p"], -state["q"]))
    assert differences(cases, eager(cases, x, y), actual, TOLERANCE[torch.float32]) == []


OPTIMIZERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "momentum": (dmc.optim.SGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
    "adamw": (dmc.optim.AdamW, torch.optim.AdamW, {"lr": 0.02}),
}


@pytest.mark.parametrize("value", [NAN, float("inf")], ids=["nan", "inf"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_norm_that_is_not_finite_reaches_every_parameter(name: str, value: float) -> None:
    # Two parameters, of which one alone has such a gradient; clipping divides both by their norm.
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.left * x + self.right * y

    def total(output: Tensor, target: Tensor) -> Tensor:
        return (output * target).sum()

    own, reference, options = OPTIMIZERS[name]
    batches = [(torch.full([4], 2.0), torch.full([4], each), torch.ones(4)) for each in (1.0, value, 1.0)]
    model = Product()
    optimizer = own(clip_grad_norm=1.0, **options)
    step = dmc.compile(model, loss=total, optimizer=optimizer, example=batches[0])
    train(step, batches)
    trainer = EagerTrainer(model, total, reference(model.parameters(), **options), clip_grad_norm=1.0)
    for batch in batches:
        trainer.step(batch)
    for key, expected in clone_state(model).items():
        torch.testing.assert_close(model_state(step)[key], expected, rtol=1e-5, atol=1e-6, equal_nan=True)


def _without(cases: Mapping[str, Case], names: set[str]) -> dict[str, Case]:
    return {name: case for name, case in cases.items() if name not in names}
