"""CTC loss and its gradient, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from dmc.importer.python.ctc import ctc_loss
from tests.interpreted import assert_trains_as_eager

STEPS, BATCH, CLASSES, ROOM = 6, 3, 4, 3


def _value_and_gradient(loss: Any, scores: Tensor, *arguments: Any, softmax: bool, **options: Any) -> list[Tensor]:
    leaf = scores.clone().requires_grad_()
    value = loss(leaf.log_softmax(-1) if softmax else leaf, *arguments, **options)
    (value * torch.arange(1.0, value.numel() + 1).view(value.shape)).sum().backward()
    assert leaf.grad is not None
    return [value.detach(), leaf.grad]


def _assert_same(*arguments: Any, softmax: bool = True, **options: Any) -> None:
    pairs = (
        _value_and_gradient(each, *arguments, softmax=softmax, **options) for each in (ctc_loss, functional.ctc_loss)
    )
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_losses_and_gradients(data: st.DataObject) -> None:
    """Lengths from nothing on, targets that repeat, and sequences too short for them."""
    torch.manual_seed(data.draw(st.integers(0, 99)))
    inputs, lengths = (
        torch.tensor(data.draw(st.lists(st.integers(0, most), min_size=BATCH, max_size=BATCH)))
        for most in (STEPS, ROOM)
    )
    blank = data.draw(st.integers(0, CLASSES - 1))
    classes = st.sampled_from([each for each in range(CLASSES) if each != blank])
    rows = torch.tensor(data.draw(st.lists(classes, min_size=BATCH * ROOM, max_size=BATCH * ROOM))).view(BATCH, ROOM)
    # What stands behind the targets of a sequence does not matter.
    rows = torch.where(torch.arange(ROOM) < lengths.unsqueeze(1), rows, -1)
    if data.draw(st.booleans()) and lengths.sum() > 0:
        rows = torch.cat([row[:length] for row, length in zip(rows, lengths, strict=True)])
    _assert_same(
        torch.randn(STEPS, BATCH, CLASSES),
        rows,
        inputs,
        lengths,
        blank,
        data.draw(st.sampled_from(["none", "mean", "sum"])),
        data.draw(st.booleans()),
        softmax=data.draw(st.booleans()),
    )


def test_one_sequence_and_lengths_that_are_numbers() -> None:
    _assert_same(torch.randn(STEPS, CLASSES), torch.tensor([1, 3]), torch.tensor(5), torch.tensor(2))
    _assert_same(torch.randn(STEPS, 2, CLASSES), torch.tensor([[1, 3], [2, 2]]), (5, 6), (2, 1), reduction="sum")


@pytest.mark.parametrize("wrong", ["input", "length", "target"])
def test_what_eager_refuses_is_nan(wrong: str) -> None:
    inputs, lengths, rows = torch.tensor([6, 6]), torch.tensor([2, 2]), torch.tensor([[1, 2], [3, 1]])
    assert ctc_loss(torch.randn(6, 2, 4), rows, inputs, lengths).isfinite()
    {"input": inputs, "length": lengths, "target": rows[1]}[wrong][1] = 7
    assert ctc_loss(torch.randn(6, 2, 4), rows, inputs, lengths, reduction="none").isnan().tolist() == [False, True]


class Recogniser(nn.Module):
    """Scores of classes along a sequence, and their loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.loss = nn.Linear(5, CLASSES), nn.CTCLoss(zero_infinity=True)

    def forward(self, x: Tensor, rows: Tensor, inputs: Tensor, lengths: Tensor) -> Tensor:
        """x f32[B, T, 5], rows i64[B, ROOM] → f32[]."""
        return self.loss(self.layer(x).log_softmax(-1).transpose(0, 1), rows, inputs, lengths)


def test_a_step(context: Any) -> None:
    torch.manual_seed(0)
    first = (torch.randn(2, STEPS, 5), torch.tensor([[1, 2, 2], [3, 0, 0]]), torch.tensor([6, 4]), torch.tensor([3, 1]))
    second = (
        torch.randn(2, STEPS, 5),
        torch.tensor([[3, 3, 3], [1, 2, 0]]),
        torch.tensor([4, 5]),
        torch.tensor([3, 2]),
    )
    assert_trains_as_eager(
        context, Recogniser(), lambda y, _: y, [(*each, torch.zeros([])) for each in (first, second)]
    )
