"""State that a forward pass changes: what is registered is carried from step to step as in eager, the rest refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dmc.errors import ImportFailure
from tests.interpreted import InterpretedStep, assert_trains_as_eager, fingerprint

WIDTH = 6
Forward = Callable[["Model", Tensor], Tensor]


class Inner(nn.Module):
    """One of each kind of state, below the model, so that it has a path."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.linspace(-1, 1, WIDTH))
        self.teacher = nn.Parameter(torch.zeros(WIDTH, WIDTH), requires_grad=False)
        self.count = nn.Buffer(torch.zeros(()))
        self.queue = nn.Buffer(torch.arange(4.0 * WIDTH).view(4, WIDTH))
        self.other = nn.Buffer(torch.ones(4, WIDTH))
        self.table: Any = nn.Buffer(torch.ones(2))
        self.plain = torch.ones(WIDTH)
        self.calls, self.log, self.last, self.nested = 0, list[Any](), None, {"n": [0]}


class Model(nn.Module):
    """Calls `forward_of` with its inner module."""

    def __init__(self, forward_of: Any) -> None:
        super().__init__()
        self.inner = Inner()
        self.forward_of = forward_of

    def forward(self, x: Tensor) -> Tensor:
        """f32[4, WIDTH] → f32[4, WIDTH]."""
        return self.forward_of(self.inner, x)


def _batches() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(4, WIDTH, generator=generator), torch.randn(4, WIDTH, generator=generator)) for _ in range(3)]


def _counted(m: Inner, x: Tensor) -> Tensor:
    m.count = m.count + 1
    return m.linear(x) * m.scale / m.count


def _queued(m: Inner, x: Tensor) -> Tensor:
    h = m.linear(x) * m.scale
    before = m.queue
    m.queue = torch.roll(m.queue, (1, -2), (0, 1)).roll(3)
    m.queue[0] = h.detach()[0]
    return h + m.queue.mean(0) + before[1]


def _swapped(m: Inner, x: Tensor) -> Tensor:
    m.queue, m.other = m.other, m.queue
    return m.linear(x) * m.scale * m.queue


def _taught(m: Inner, x: Tensor) -> Tensor:
    with torch.no_grad():
        m.teacher.lerp_(m.linear.weight, 0.5)
    return m.linear(x) * m.scale + x @ m.teacher


def _taught_afterwards(m: Inner, x: Tensor) -> Tensor:
    y = m.linear(x) * m.scale + x @ m.teacher.clone()
    with torch.no_grad():
        m.teacher.lerp_(m.linear.weight, 0.5)
    return y


def _taught_by_data(m: Inner, x: Tensor) -> Tensor:
    m.teacher.data.mul_(0.5).add_(m.linear.weight.data, alpha=0.5)
    return m.linear(x) * m.scale + x @ m.teacher


def _clamped(m: Inner, x: Tensor) -> Tensor:
    with torch.no_grad():
        m.scale.clamp_(min=0.1)
    return m.linear(x) * m.scale


def _clamped_by_data(m: Inner, x: Tensor) -> Tensor:
    m.scale.data.clamp_(min=0.1)
    return m.linear(x) * m.scale


def _written_through_a_view(m: Inner, x: Tensor) -> Tensor:
    m.queue.view(-1)[:WIDTH].copy_(x[0])
    return m.linear(x) * m.scale + m.queue


def _scratch(m: Inner, x: Tensor) -> Tensor:
    # Written before it is read: what the call leaves, no call takes up.
    m.last = m.linear(x) * m.scale
    m.log = [m.last.shape]
    m.log.append(1)
    return m.last


def _the_same_again(m: Inner, x: Tensor) -> Tensor:
    m.calls = m.calls * 1
    m.nested = {"n": [0]} if m.nested else {}
    m.linear.train(m.linear.training)
    return m.linear(x) * m.scale


CARRIED: dict[str, Any] = {
    each.__name__.removeprefix("_"): each
    for each in (
        _counted,
        _queued,
        _swapped,
        _taught,
        _taught_afterwards,
        _taught_by_data,
        _clamped,
        _clamped_by_data,
        _written_through_a_view,
        _scratch,
        _the_same_again,
    )
}


@pytest.mark.parametrize("name", CARRIED)
def test_registered_state_is_carried_as_in_eager(context: Any, name: str) -> None:
    torch.manual_seed(0)
    assert_trains_as_eager(context, Model(CARRIED[name]), nn.functional.mse_loss, _batches())


@pytest.mark.parametrize("name", ["counted", "taught", "clamped"])
def test_state_changes_once_in_each_micro_batch(context: Any, name: str) -> None:
    torch.manual_seed(0)
    # Not those that read the queue, which has as many rows as a batch.
    assert_trains_as_eager(context, Model(CARRIED[name]), nn.functional.mse_loss, _batches(), accumulate=2)


def test_a_step_that_is_called_off_leaves_what_forward_wrote(context: Any) -> None:
    (x, y), *_ = _batches()
    step = InterpretedStep(context, Model(_clamped), nn.functional.mse_loss, (x, y))
    before = {name: array.copy() for name, array in step.state.items()}
    step(x * torch.nan, y, guard=1)
    for name, array in before.items():
        np.testing.assert_array_equal(step.state[name], array, err_msg=name)


def _attribute(m: Inner, x: Tensor) -> Tensor:
    m.plain = m.plain + 1
    return m.linear(x) * m.plain


def _plain_in_place(m: Inner, x: Tensor) -> Tensor:
    m.plain.add_(1)
    return m.linear(x) * m.plain


def _counter(m: Inner, x: Tensor) -> Tensor:
    m.calls += 1
    return m.linear(x) / m.calls


def _list(m: Inner, x: Tensor) -> Tensor:
    m.log.append(x.shape)
    return m.linear(x)


def _nested(m: Inner, x: Tensor) -> Tensor:
    m.nested["n"][0] += 1
    return m.linear(x)


def _made_once(m: Inner, x: Tensor) -> Tensor:
    if m.last is None:
        m.last = torch.ones(WIDTH)
    return m.linear(x) * m.last


def _made_if_missing(m: Inner, x: Tensor) -> Tensor:
    if not hasattr(m, "cache"):
        m.cache = torch.ones(WIDTH)
    return m.linear(x) * m.cache


def _grown(m: Inner, x: Tensor) -> Tensor:
    if len(m.table) < WIDTH:
        m.register_buffer("table", torch.ones(WIDTH))
    return m.linear(x) * m.table


def _retyped(m: Inner, x: Tensor) -> Tensor:
    m.count = m.count.long() + 1
    return m.linear(x) * m.count


def _registered_late(m: Inner, x: Tensor) -> Tensor:
    m.register_buffer("late", torch.ones(WIDTH))
    return m.linear(x) * m.late


def _with_gradient(m: Inner, x: Tensor) -> Tensor:
    m.queue = m.linear(x)
    return m.queue


def _with_gradient_in_place(m: Inner, x: Tensor) -> Tensor:
    m.queue.copy_(m.linear(x))
    return m.queue * 1


def _of_a_parameter(m: Inner, x: Tensor) -> Tensor:
    m.queue = m.teacher.detach()[:4]
    return m.linear(x) + m.queue


def _new_parameter(m: Inner, x: Tensor) -> Tensor:
    m.scale = nn.Parameter(m.scale.clamp(min=0.1))
    return m.linear(x) * m.scale


def _thawed(m: Inner, x: Tensor) -> Tensor:
    m.teacher.requires_grad_(True)
    return m.linear(x) @ m.teacher


def _input_in_place(m: Inner, x: Tensor) -> Tensor:
    x[0] += 1
    return m.linear(x)


def _data_assigned(m: Inner, x: Tensor) -> Tensor:
    m.teacher.data = m.linear.weight.data
    return m.linear(x) @ m.teacher


def _python_random(m: Inner, x: Tensor) -> Tensor:
    return m.linear(x) * random.random()


def _numpy_random(m: Inner, x: Tensor) -> Tensor:
    return m.linear(x) * float(np.random.rand())


def _seeded(m: Inner, x: Tensor) -> Tensor:
    torch.manual_seed(0)
    return nn.functional.dropout(m.linear(x))


REFUSED: dict[str, tuple[Any, str]] = {
    "attribute": (_attribute, r"'inner\.plain' is changed in `forward`"),
    "plain tensor in place": (_plain_in_place, r"writes into 'inner\.plain'"),
    "counter": (_counter, r"'inner\.calls' changes from 0 to 1"),
    "list": (_list, r"'inner\.log\[0\]', in a list or dictionary, is created"),
    "nested": (_nested, r"'inner\.nested\['n'\]\[0\]', in a list or dictionary, changes from 0 to 1"),
    "made once": (_made_once, r"'inner\.last' is created"),
    "made if missing": (_made_if_missing, r"'inner\.cache' is created"),
    "grown": (_grown, r"buffer 'table' becomes .*\[6\] but was .*\[2\]"),
    "retyped": (_retyped, r"buffer 'count' becomes .*int64"),
    "registered late": (_registered_late, r"buffer 'late' is created"),
    "with gradient": (_with_gradient, r"'queue' is assigned a value that has a gradient"),
    "with gradient, in place": (_with_gradient_in_place, r"'inner\.queue' is assigned a value that has a gradient"),
    "of a parameter": (_of_a_parameter, r"'inner\.queue' is assigned an alias of another"),
    "transposed": (
        lambda m, x: m.linear(x) * m.queue.t_().sum(),
        r"'inner\.queue' becomes .*\[6, 4\] but was .*\[4, 6\]",
    ),
    "new parameter": (_new_parameter, r"replaces the parameter 'scale'"),
    "thawed": (_thawed, r"sets requires_grad of inner\.teacher"),
    "input in place": (_input_in_place, r"writes into 'x'"),
    "data assigned": (_data_assigned, r"assigns to \.data"),
    "Python's random": (_python_random, r"random numbers of random "),
    "NumPy's random": (_numpy_random, r"random numbers of numpy\.random "),
    "seeded": (_seeded, r"calls torch\.manual_seed, on which"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_state_is_refused_by_name(context: Any, name: str) -> None:
    forward, fact = REFUSED[name]
    model = Model(forward)
    before, generators = fingerprint(model), (random.getstate(), repr(np.random.get_state()))
    with pytest.raises(ImportFailure, match=fact) as caught:
        InterpretedStep(context, model, nn.functional.mse_loss, _batches()[0])
    assert caught.value.place and caught.value.hint
    assert fingerprint(model) == before, "a refusal changed the user's model"
    assert (random.getstate(), repr(np.random.get_state())) == generators
