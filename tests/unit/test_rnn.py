"""LSTM and GRU as loops over cells mean what PyTorch means by them: values and gradients, in PyTorch itself."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from dmc.importer import composites
from dmc.importer.forward import rnn

assert composites.lstm_cell  # Importing the composites has registered the cells.
OPTIONS = list(itertools.product([True, False], repeat=3))
LENGTH, BATCH, WIDTH, HIDDEN = 5, 3, 4, 6


def _no_dropout(x: Tensor, p: float) -> Tensor:
    raise AssertionError("dropout where none was asked for")


@pytest.mark.parametrize(("bias", "bidirectional", "batch_first"), OPTIONS)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_every_layout(kind: type[nn.LSTM | nn.GRU], bias: bool, bidirectional: bool, batch_first: bool) -> None:
    torch.manual_seed(0)
    model = kind(WIDTH, HIDDEN, 2, bias=bias, batch_first=batch_first, bidirectional=bidirectional)
    x = torch.randn(*((BATCH, LENGTH) if batch_first else (LENGTH, BATCH)), WIDTH, requires_grad=True)
    states = [torch.randn(4 if bidirectional else 2, BATCH, HIDDEN, requires_grad=True) for _ in range(2)]
    stack = rnn.Stack(bias, 2, 0.5, False, bidirectional, batch_first)
    weights = list(model.parameters())
    if kind is nn.LSTM:
        own = rnn.lstm(x, states, weights, stack, _no_dropout)
        output, (h, c) = model(x, tuple(states))
        reference = (output, h, c)
    else:
        states = states[:1]
        own = rnn.gru(x, states[0], weights, stack, _no_dropout)
        reference = model(x, states[0])
    inputs = [x, *states, *weights]
    for actual, expected in zip(own, reference, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
    for actual, expected in zip(_gradients(own, inputs), _gradients(reference, inputs), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("bias", "bidirectional"), list(itertools.product([True, False], repeat=2)))
def test_projections(bias: bool, bidirectional: bool) -> None:
    torch.manual_seed(0)
    model, projected = nn.LSTM(WIDTH, HIDDEN, 2, bias=bias, bidirectional=bidirectional, proj_size=3), 3
    x, count = torch.randn(LENGTH, BATCH, WIDTH, requires_grad=True), 4 if bidirectional else 2
    states = [torch.randn(count, BATCH, size, requires_grad=True) for size in (projected, HIDDEN)]
    weights = list(model.parameters())
    own = rnn.lstm(x, states, weights, rnn.Stack(bias, 2, 0.0, False, bidirectional, False), _no_dropout)
    output, final = model(x, tuple(states))
    inputs, reference = [x, *states, *weights], (output, *final)
    for actual, expected in zip(own, reference, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
    for actual, expected in zip(_gradients(own, inputs), _gradients(reference, inputs), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def _gradients(results: tuple[Tensor, ...], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    # Every element of every result has a weight of its own.
    total = sum((value * torch.linspace(-1.0, 2.0, value.numel()).view(value.shape)).sum() for value in results)
    assert isinstance(total, Tensor)
    return torch.autograd.grad(total, inputs, retain_graph=True)


def test_dropout_acts_between_layers_only_and_in_training() -> None:
    model, seen = nn.LSTM(WIDTH, HIDDEN, 3), list[float]()

    def dropout(x: Tensor, p: float) -> Tensor:
        seen.append(p)
        return x

    zeros = [torch.zeros(3, BATCH, HIDDEN)] * 2
    for train in (False, True):
        stack = rnn.Stack(True, 3, 0.25, train, False, False)
        rnn.lstm(torch.randn(LENGTH, BATCH, WIDTH), zeros, list(model.parameters()), stack, dropout)
        assert seen == [0.25, 0.25] * train
