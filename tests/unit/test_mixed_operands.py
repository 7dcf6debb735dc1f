"""Operands of two types, or of a narrow one, beside PyTorch eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from dmc.importer.decompositions import decompositions
from dmc.importer.forward.precision import Precision
from tests.interpreted import RATE, InterpretedStep, assert_trains_as_eager

FLAGS = torch.tensor([True, False, True])
NARROW = (torch.bfloat16, torch.float16)


def _assert_as_eager(function: Callable[..., Tensor], *arguments: Tensor) -> None:
    """What is left of `function`, decomposed, gives eager's elements and type."""
    graph = make_fx(function, decomposition_table=decompositions.table(), tracing_mode="fake")(*arguments)
    torch.testing.assert_close(graph(*arguments), function(*arguments), rtol=0, atol=0, equal_nan=True)


def test_bits_of_booleans_and_integers_are_integers() -> None:
    _assert_as_eager(lambda b: (b & 2) + 10 * (b | 2) + 100 * (b ^ 2), FLAGS)
    _assert_as_eager(lambda b: b & True, FLAGS)


def test_a_sign_of_a_boolean_is_itself() -> None:
    _assert_as_eager(torch.sign, FLAGS)
    _assert_as_eager(torch.sgn, FLAGS)


def test_integers_are_floor_divided_by_floats() -> None:
    _assert_as_eager(lambda x: x // 0.3, torch.tensor(3))
    _assert_as_eager(lambda x: x // 0.3, torch.arange(-9, 9))
    _assert_as_eager(lambda y: 1 // y, torch.tensor([0.1, -0.3]))
    _assert_as_eager(lambda y: 1 // y, torch.tensor(0.1))
    _assert_as_eager(lambda x, y: x // y, torch.tensor([1.0, 0.3]), torch.tensor([3, -2]))


@pytest.mark.parametrize("function", [torch.floor_divide, torch.fmod])
def test_integers_are_not_divided_by_a_zero_that_a_choice_covers(function: Callable[..., Tensor]) -> None:
    x, y = torch.tensor([10, -11, 12]), torch.tensor([3, 0, -5])

    def chosen(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(y != 0, function(x, y), 7)

    graph = make_fx(chosen, decomposition_table=decompositions.table(), tracing_mode="fake")(x, y)
    assert torch.equal(graph(x, y), torch.where(y != 0, function(x, torch.where(y == 0, 1, y)), 7))


def test_a_scatter_reads_as_much_of_the_source_as_the_index_has() -> None:
    zeros, source = torch.zeros(4, 3), torch.arange(1.0, 31.0).view(6, 5)
    index = torch.tensor([[0, 1, 3], [2, 1, 0]])
    for scatter in (torch.scatter, torch.scatter_add):
        _assert_as_eager(_scattered(scatter), zeros, index, source)
    _assert_as_eager(lambda x, s: x.scatter_add(0, torch.ones(1, dtype=torch.int64), s), zeros[:, 0], source[0])


def _scattered(scatter: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, index, source: scatter(x, 0, index, source)


def _raised(exponent: int) -> Callable[[Tensor], Tensor]:
    return lambda x: x**exponent


@pytest.mark.parametrize("dtype", NARROW)
def test_powers_of_narrow_types_are_rounded_once(dtype: torch.dtype) -> None:
    x = torch.linspace(-3.0, 3.0, 64).to(dtype)
    for exponent in (2, 4, 5, 7):
        _assert_as_eager(_raised(exponent), x)


class _Comparisons(nn.Module):
    """Sums of the places where narrow tensors compare so with numbers that their type does not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        total = self.weight
        for place, (dtype, number) in enumerate([(torch.bfloat16, 257), (torch.bfloat16, 0.1), (torch.float16, 2049)]):
            narrow = x.to(dtype)
            compared: list[Any] = [narrow == number, narrow < number, narrow >= number]
            for power, each in enumerate(compared):
                total = total + self.weight * each * 2.0 ** (3 * place + power)
        return total + self.weight * ((x > 1.0) & 2) + self.weight * torch.sign(x > 1.0)


def test_numbers_are_rounded_before_narrow_types_are_compared(context: Any) -> None:
    x = torch.tensor([256.0, 0.1, 2048.0])
    assert_trains_as_eager(context, _Comparisons(), lambda out, zero: out.mean() * 1e-3 + zero, [(x, torch.zeros([]))])


class _Probed(nn.Module):
    """Reads its own features, converted to a type that they have in fp32, but not in mixed precision."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2, bias=False)
        self.linear.weight.data = torch.tensor([[1.0, -2.0], [0.5, 3.0]])

    def forward(self, x: Tensor) -> Tensor:
        features = self.linear(x)
        with torch.no_grad():
            seen = features.float()
        return features * seen


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16_MIXED])
def test_a_tensor_converted_without_gradients_keeps_its_own(context: Any, precision: Precision) -> None:
    """The result is the tensor itself in fp32, and another, without a gradient, in mixed precision."""
    x, y = torch.tensor([[1.0, 2.0], [-1.0, 4.0]]), torch.zeros(1)

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return output.sum() / 16

    step, model = InterpretedStep(context, _Probed(), loss, (x, y), precision=precision), _Probed()
    with torch.autocast("cpu", torch.bfloat16, enabled=precision is Precision.BF16_MIXED):
        value = loss(model(x), y)
    value.backward()
    assert step(x, y) == value.item()
    assert model.linear.weight.grad is not None
    expected = model.linear.weight.detach() - RATE * model.linear.weight.grad
    torch.testing.assert_close(step.model_state()["linear.weight"], expected)
