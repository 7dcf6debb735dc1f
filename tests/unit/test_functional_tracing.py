"""Traced graphs write nothing, whether they had to be made so or not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dmc.importer import differentiate as tracing
from dmc.importer.capture.capture import capture
from dmc.importer.torch_internals import may_write

ROWS = torch.arange(6.0).reshape(2, 3)


class Doubled(torch.autograd.Function):
    """Its gradient is computed in place."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient.clone().mul_(2)


class Model(nn.Module):
    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.function = nn.Parameter(torch.ones(3)), function
        self.count = nn.Buffer(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.weight * x, self.count).sum()


def _in_place(x: Tensor, count: Tensor) -> Tensor:
    return x.clone().mul_(x)


def _with_state(x: Tensor, count: Tensor) -> Tensor:
    count += x.detach().sum(0)
    return x * count


def _gradient_in_place(x: Tensor, count: Tensor) -> Tensor:
    return Doubled.apply(x)  # pyright: ignore[reportUnknownVariableType]


def _plain(x: Tensor, count: Tensor) -> Tensor:
    return x * x


@pytest.mark.parametrize("function", [_plain, _in_place, _with_state, _gradient_in_place])
def test_nothing_is_written(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    captured = capture(Model(function), None, (ROWS,), None)
    gradients = tracing.differentiate(captured, False, frozenset({"weight"}))
    assert not any(may_write(node) for node in gradients.graph.graph.nodes)
    names = list(captured.state)
    weight = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    state = {"weight": weight, "count": torch.ones(3)}
    scalars = torch.zeros([], dtype=torch.int64), torch.zeros([], dtype=torch.int64)
    with torch.no_grad():
        loss, *results = gradients.graph(*(state[name] for name in names), *scalars, ROWS)
    count = torch.ones(3)
    expected = function(weight * ROWS, count).sum()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(results[-1], torch.autograd.grad(expected, weight)[0])
    if "count" in gradients.written:
        torch.testing.assert_close(results[0], count)
    assert ("count" in gradients.written) == (function is _with_state)


def test_what_writes_nothing_is_not_functionalised(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    real = tracing.dispatch_functionalize

    def noted(function: Callable[..., object]) -> Callable[..., object]:
        seen.append(function)
        return real(function)

    monkeypatch.setattr(tracing, "dispatch_functionalize", noted)
    for function, times in ((_plain, 0), (_in_place, 1), (_gradient_in_place, 2)):
        captured = capture(Model(function), None, (ROWS,), None)
        tracing.differentiate(captured, False, frozenset({"weight"}))
        assert len(seen) == times


def test_what_only_the_trace_writes_is_functionalised() -> None:
    captured = capture(Model(_plain), None, (ROWS,), None)
    graph = tracing.trace_functional(captured, lambda x: [x.clone().mul_(2)], [torch.ones(3)])
    assert not any(may_write(node) for node in graph.graph.nodes)
    assert graph(torch.ones(3))[0].tolist() == [2.0, 2.0, 2.0]
