"""Backward passes that users write, in `autograd.Function`s and in hooks, compiled as eager runs them."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu
from torch.nn.utils import parametrizations, spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint

from dmc.importer.forward.precision import Precision
from tests.interpreted import InterpretedStep, assert_trains_as_eager
from tests.two_layers import WIDTH, Model, batches, mse


class Reverse(torch.autograd.Function):
    """The identity, whose gradient is scaled by a constant."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return -grads[0] * ctx.factor, None


class Round(torch.autograd.Function):
    """Rounds, straight through where it does not saturate; in the style that has a context of its own."""

    @staticmethod
    def forward(x: Tensor, bound: float = 1.0) -> tuple[Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return (x * 4).round() / 4, x.abs() <= bound

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (inside,) = ctx.saved_tensors
        return grads[0] * inside, None


class Clipped(torch.autograd.Function):
    """The identity of two tensors, with gradients that are clipped, so that their scale counts."""

    @staticmethod
    def forward(ctx: Any, pair: list[Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x + pair[0], y.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, grads[0].clamp(-0.01, 0.01), grads[1].clamp(-0.02, 0.02)


class Scaled(torch.autograd.Function):
    """Written in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0] * 5


# Looked up long before anything is compiled, as is usual.
reverse = Reverse.apply


def _reversed(m: Model, h: Tensor) -> Tensor:
    return reverse(h, 0.5)


def _rounded(m: Model, h: Tensor) -> Tensor:
    value, inside = Round.apply(h)  # pyright: ignore[reportGeneralTypeIssues]
    return value + inside.float()


def _clipped(m: Model, h: Tensor) -> Tensor:
    one, other = Clipped.apply([h.detach() * 2], h, h.tanh())  # pyright: ignore[reportGeneralTypeIssues]
    return one + other


def _scaled(m: Model, h: Tensor) -> Tensor:
    h = h * 1
    return Scaled.apply(h) + h  # pyright: ignore[reportOperatorIssue]


def _without_gradient(m: Model, h: Tensor) -> Tensor:
    with torch.no_grad():
        return h.tanh() + reverse(h, 2.0)


def _hooked(m: Model, h: Tensor) -> Tensor:
    mask = h > 0
    h.register_hook(lambda grad: grad.clamp(-0.01, 0.01) * mask)
    return h.tanh()


class Masked:
    """A hook that is an object."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def __call__(self, grad: Tensor) -> Tensor:
        return grad * self.mask

    def doubled(self, grad: Tensor) -> Tensor:
        """A hook that is a bound method."""
        return grad * self.mask * 2


class MaskedBySlot:
    """As `Masked`, without a `__dict__`."""

    __slots__ = ("mask",)

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def __call__(self, grad: Tensor) -> Tensor:
        return grad * self.mask


def _hooked_otherwise(m: Model, h: Tensor) -> Tensor:
    def by_default(grad: Tensor, mask: Tensor = h > 0) -> Tensor:
        return grad * mask

    def by_keyword(grad: Tensor, *, mask: Tensor = h < 1) -> Tensor:
        return grad * mask

    objects = (Masked(h > -1), Masked(h < 0.9).doubled, MaskedBySlot(h > 0.1))
    for hook in (by_default, by_keyword, functools.partial(torch.mul, h.detach()), *objects):
        h.register_hook(hook)
    return h.tanh()


def _checkpointed(m: Model, h: Tensor) -> Tensor:
    return checkpoint(lambda h: m.second(h).tanh(), h, use_reentrant=False)


def _checkpointed_reentrantly(m: Model, h: Tensor) -> Tensor:
    return checkpoint(lambda h: m.second(h).tanh(), h, use_reentrant=True)


def _saved_on_the_host(m: Model, h: Tensor) -> Tensor:
    with save_on_cpu():
        return m.second(h).tanh()


COMPILED: dict[str, Any] = {
    each.__name__.removeprefix("_"): each
    for each in (
        _reversed,
        _rounded,
        _clipped,
        _scaled,
        _hooked,
        _hooked_otherwise,
        _checkpointed,
        _checkpointed_reentrantly,
        _saved_on_the_host,
    )
}


@pytest.mark.parametrize("name", COMPILED)
def test_backward_passes_of_users_are_compiled(context: Any, name: str) -> None:
    torch.manual_seed(0)
    model = Model(COMPILED[name])
    start = copy.deepcopy(model)
    step = assert_trains_as_eager(context, model, mse, batches())
    change = step.model_state()["first.weight"] - start.first.weight.detach()
    assert change.abs().max() > 1e-4, "nothing was trained"


@pytest.mark.parametrize("name", ["clipped", "hooked"])
def test_they_see_the_gradients_of_a_micro_batch(context: Any, name: str) -> None:
    torch.manual_seed(0)
    assert_trains_as_eager(context, Model(COMPILED[name]), mse, batches(), accumulate=2)


def test_under_no_grad_there_is_no_backward_pass(context: Any) -> None:
    torch.manual_seed(0)
    assert_trains_as_eager(context, Model(_without_gradient), mse, batches())


def test_hooks_of_parameters(context: Any) -> None:
    torch.manual_seed(0)
    model = Model(lambda m, h: h.tanh())
    model.first.weight.register_hook(lambda grad: grad * 0)
    model.second.weight.register_hook(lambda grad: grad.clamp(-0.01, 0.01))
    model.second.weight.register_hook(lambda grad: grad * 2)
    # Copies of a parameter have no hooks.
    eager = copy.deepcopy(model)
    for ours, own in zip(eager.parameters(), model.parameters(), strict=True):
        for hook in (own._backward_hooks or {}).values():
            ours.register_hook(hook)
    step = InterpretedStep(context, model, mse, batches()[0], accumulate=2)
    for x, y in batches():
        step(x, y)
        eager.zero_grad()
        for half in range(2):
            part = slice(2 * half, 2 * half + 2)
            (mse(eager(x[part]), y[part]) / 2).backward()
        with torch.no_grad():
            for parameter in eager.parameters():
                parameter.sub_(0.1 * (torch.zeros(()) if parameter.grad is None else parameter.grad))
    for name, tensor in step.model_state().items():
        torch.testing.assert_close(tensor, eager.state_dict()[name], rtol=1e-5, atol=1e-6)
    assert torch.equal(step.model_state()["first.weight"], model.first.weight)
    assert len(model.second.weight._backward_hooks or {}) == 2


def test_forward_hooks_of_modules(context: Any) -> None:
    torch.manual_seed(0)
    model = Model(lambda m, h: h.tanh())
    model.first.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    model.first.register_forward_hook(lambda module, inputs, output: output + inputs[0])
    assert_trains_as_eager(context, model, mse, batches())


def test_parametrized_weights(context: Any) -> None:
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    parametrizations.weight_norm(layers[0])
    parametrizations.spectral_norm(layers[1])
    weight_norm(layers[2])
    spectral_norm(layers[3])
    model = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2], nn.Tanh(), layers[3])
    # The old functions keep a tensor that cannot be copied before a first call under no_grad.
    with torch.no_grad():
        model(batches()[0][0])
    assert_trains_as_eager(context, model, mse, batches())


def test_in_mixed_precision_a_function_is_under_autocast(context: Any) -> None:
    torch.manual_seed(0)
    step = InterpretedStep(context, Model(_reversed), mse, batches()[0], precision=Precision.BF16_MIXED)
    assert step(*batches()[0]) > 0
