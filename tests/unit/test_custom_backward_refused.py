"""Backward passes that users write and that a compiled step could not run: refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from dmc.errors import ImportFailure
from tests.interpreted import InterpretedStep, assert_refused
from tests.two_layers import Model, batches, mse


class ByNumpy(torch.autograd.Function):
    """Leaves PyTorch on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return torch.from_numpy(grads[0].numpy() * 2)


class Noisy(torch.autograd.Function):
    """Draws random numbers on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0] * torch.rand_like(grads[0])


class Weighted(torch.autograd.Function):
    """Reads a module's parameter on its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, module: nn.Linear) -> Tensor:
        return x * module.weight[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return grads[0], None


def _observed(m: Model, h: Tensor) -> Tensor:
    h.register_hook(lambda grad: None)
    return h


def _hooked_parameter(m: Model, h: Tensor) -> Tensor:
    m.first.weight.register_hook(lambda grad: grad)
    return h


class Holder:
    """Cannot be called, so that nothing looks into it."""

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask


def _hooked_by_object(m: Model, h: Tensor) -> Tensor:
    holder = Holder(h > 0)
    h.register_hook(lambda grad: grad * holder.mask)
    return h


def _hooked_node(m: Model, h: Tensor) -> Tensor:
    assert h.grad_fn is not None
    h.grad_fn.register_hook(lambda grads, _: grads)
    return h


def _packed(m: Model, h: Tensor) -> Tensor:
    with saved_tensors_hooks(lambda x: x.half(), lambda x: x.float()):
        return h.tanh()


def _checkpointed_norm(m: Model, h: Tensor) -> Tensor:
    return checkpoint(m.norm, h, use_reentrant=False)


def _checkpointed_norm_reentrantly(m: Model, h: Tensor) -> Tensor:
    return checkpoint(m.norm, h, use_reentrant=True)


REFUSED: dict[str, tuple[Any, str]] = {
    "observed": (_observed, "returns no gradient"),
    "parameter's hook": (_hooked_parameter, r"registers another hook on first\.weight in each call"),
    "an object's tensor": (_hooked_by_object, "reads a tensor of the forward pass that is neither an argument nor"),
    "node's hook": (_hooked_node, r"reads \.grad_fn"),
    "saved tensors": (_packed, "hooks on saved tensors"),
    "checkpointed norm": (_checkpointed_norm, r"norm\.\w+ changes in a checkpoint"),
    "checkpointed norm, reentrant": (_checkpointed_norm_reentrantly, r"norm\.\w+ changes in a checkpoint"),
    "numpy": (lambda m, h: ByNumpy.apply(h), "the backward pass lets a tensor's numbers leave the step, by NumPy"),
    "random": (lambda m, h: Noisy.apply(h), "draws random numbers"),
    "module": (lambda m, h: Weighted.apply(h, m.first), "'Weighted' cannot be traced"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_compiled_is_refused(context: Any, name: str) -> None:
    between, fact = REFUSED[name]
    assert_refused(context, Model(between), fact, mse, batches()[0])


def _with_backward_hook(model: Model) -> None:
    model.first.register_full_backward_hook(lambda module, inputs, outputs: None)


def _with_backward_pre_hook(model: Model) -> None:
    model.first.register_full_backward_pre_hook(lambda module, outputs: None)


def _with_late_hook(model: Model) -> None:
    model.first.weight.register_post_accumulate_grad_hook(lambda parameter: None)


@pytest.mark.parametrize("register", [_with_backward_hook, _with_backward_pre_hook, _with_late_hook])
def test_hooks_that_are_not_compiled_are_refused(context: Any, register: Callable[[Model], None]) -> None:
    model = Model(lambda m, h: h)
    register(model)
    with pytest.raises(ImportFailure, match="hook") as caught:
        InterpretedStep(context, model, mse, batches()[0])
    assert "first" in caught.value.place and caught.value.hint
