"""`.data` of parameters is assigned: teachers' weights, masked weights, norms that are kept below a bound."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dmc.errors import ImportFailure
from dmc.importer.capture.capture import capture
from tests.interpreted import assert_trains_as_eager

WIDTH = 3
Use = Callable[["Student", Tensor], Tensor]


class Student(nn.Module):
    """A network beside its teacher, a frozen copy."""

    kept: Tensor

    def __init__(self, use: Use) -> None:
        super().__init__()
        self.net, self.use = nn.Linear(WIDTH, WIDTH), use
        self.register_buffer("kept", torch.zeros(WIDTH))
        self.teacher = copy.deepcopy(self.net).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, WIDTH] → [B, WIDTH]."""
        return self.use(self, x)


def _follow(model: Student) -> None:
    for own, teacher in zip(model.net.parameters(), model.teacher.parameters(), strict=True):
        teacher.data = 0.9 * teacher.data + 0.1 * own.data


def _momentum_first(model: Student, x: Tensor) -> Tensor:
    _follow(model)
    return model.net(x) * model.teacher(x)


def _momentum_last(model: Student, x: Tensor) -> Tensor:
    with torch.no_grad():
        wanted = model.teacher(x)
    result = model.net(x) * wanted
    with torch.no_grad():
        _follow(model)
    return result


def _masked(model: Student, x: Tensor) -> Tensor:
    model.net.weight.data *= torch.ones(WIDTH, WIDTH).tril()
    return model.net(x)


def _bounded(model: Student, x: Tensor) -> Tensor:
    model.net.weight.data = torch.renorm(model.net.weight.data, 2, 0, 0.3)
    return model.net(x)


@pytest.mark.parametrize("use", [_momentum_first, _momentum_last, _masked, _bounded])
def test_trains_as_eager(context: Any, use: Use) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(4, WIDTH), torch.randn(4, WIDTH)) for _ in range(3)]
    assert_trains_as_eager(context, Student(use), functional.mse_loss, batches)


def _kept_by_a_gradient(model: Student, x: Tensor) -> Tensor:
    y = model.net(x)
    model.net.weight.data = model.net.weight.data * 2
    return y


def _kept_by_the_users_gradient(model: Student, x: Tensor) -> Tensor:
    y = model.teacher(model.net(x))
    _follow(model)
    return y


def _kept_by_an_alias(model: Student, x: Tensor) -> Tensor:
    old = model.teacher.weight.data[0]
    model.teacher.weight.data = model.teacher.weight.data * 2
    return model.net(x) + old


def _shared(model: Student, x: Tensor) -> Tensor:
    value = model.net.weight.data * 2
    model.teacher.weight.data = value
    value += 1
    return model.net(x)


def _of_a_parameter(model: Student, x: Tensor) -> Tensor:
    model.teacher.weight.data = model.net.weight.data  # From now on the teacher is the student.
    return model.net(x)


def _of_an_input(model: Student, x: Tensor) -> Tensor:
    model.teacher.bias.data = x[0]
    return model.net(x)


def _twice(model: Student, x: Tensor) -> Tensor:
    model.teacher.weight.data = model.net.weight.data = model.net.weight.data * 2
    return model.net(x)


def _as_a_buffer(model: Student, x: Tensor) -> Tensor:
    model.teacher.bias.data = model.kept = x.detach().mean(0)
    return model.net(x)


def _of_another_shape(model: Student, x: Tensor) -> Tensor:
    model.teacher.weight.data = model.net.weight.data[:1]
    return model.net(x)


def _of_no_parameter(model: Student, x: Tensor) -> Tensor:
    y = model.net(x)
    y.data = y.data * 2
    return y


REFUSED = {
    _kept_by_a_gradient: "net.weight after it was read",
    _kept_by_the_users_gradient: "teacher.weight after it was read",
    _kept_by_an_alias: "uses old memory of a tensor after assigning to its .data",
    _shared: "or writes into either tensor",
    _of_a_parameter: "teacher.weight the memory of another tensor",
    _of_an_input: "teacher.bias the memory of another tensor",
    _twice: "weight the memory of another tensor",
    _as_a_buffer: "or writes into either tensor",
    _of_another_shape: "teacher.weight what has another shape",
    _of_no_parameter: "assigns to .data\n",
}


@pytest.mark.parametrize(("use", "fact"), REFUSED.items())
def test_what_eager_would_tell_apart_is_refused(use: Use, fact: str) -> None:
    x = torch.ones(2, WIDTH)
    with pytest.raises(ImportFailure, match=fact):
        capture(Student(use), functional.mse_loss, (x, x), None)
