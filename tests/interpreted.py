"""Imported steps run by the interpreter, which takes no time to compile, beside PyTorch eager."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import nn

import dmc
from dmc.errors import DmcError
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.importer.torch_internals import buffers_of, hooks_of, parameters_of, version
from tests.compiled import Loss, clone_state
from tests.eager import EagerTrainer
from tests.partitioned import run_on_one_rank
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

RATE = 0.1
Batch = tuple[torch.Tensor, ...]


class InterpretedStep:
    """One step of descent on one rank, in form imported."""

    def __init__(
        self,
        context: Any,
        model: nn.Module,
        loss: Loss | None,
        example: Batch,
        *,
        accumulate: int = 1,
        precision: Precision = Precision.FP32,
        optimizer: Any = None,
    ) -> None:
        optimizer = optimizer or dmc.optim.SGD(lr=RATE)
        imported = import_step(model, loss, optimizer, example, precision, accumulate, 0, context)
        self.module, self.signature = imported.module, imported.signature
        self.state = {name: _array(tensor) for name, tensor in imported.state.items()}

    def __call__(self, *batch: torch.Tensor, guard: int = 0) -> float:
        """One step; its loss."""
        controls = [np.array([RATE], np.float32), np.array(guard, np.int32)]
        # Copies, since the interpreter may keep what it is given.
        state = [array.copy() for array in self.state.values()]
        results = run_on_one_rank(self.module, [*state, *controls, *(tensor.numpy().copy() for tensor in batch)])
        names = [spec.name for spec in self.signature.state if spec.mutated]
        self.state.update(zip(names, results, strict=False))
        return float(results[len(names)])

    def model_state(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by all their names."""
        state: dict[str, torch.Tensor] = {}
        for spec in self.signature.state:
            if spec.role in ("parameter", "frozen", "buffer"):
                value = torch.as_tensor(self.state[spec.name])
                state |= dict.fromkeys((spec.name, *spec.aliases), value)
        return state


def assert_trains_as_eager(
    context: Any, model: nn.Module, loss: Loss, batches: Sequence[Batch], accumulate: int = 1, **options: Any
) -> InterpretedStep:
    """Steps on `batches` have eager's losses and leave eager's state; importing leaves `model` alone."""
    eager = copy.deepcopy(model)
    start, before = clone_state(model), fingerprint(model)
    step = InterpretedStep(context, model, loss, batches[0], accumulate=accumulate, **options)
    assert fingerprint(model) == before, "importing changed the user's model"
    losses = [step(*batch) for batch in batches]
    precision = options.get("precision", Precision.FP32).value
    optimizer = torch.optim.SGD(eager.parameters(), lr=RATE)
    trainer = EagerTrainer(eager, loss, optimizer, accumulate=accumulate, precision=precision)
    expected = [trainer.step(batch) for batch in batches]
    assert_losses_close(losses, expected, TOLERANCE[precision])
    assert_states_close(start, step.model_state(), eager.state_dict(), TOLERANCE[precision])
    return step


def assert_refused(context: Any, model: nn.Module, fact: str, loss: Loss, batch: Batch) -> None:
    """Importing raises an error that states `fact`, a place and a way out."""
    with pytest.raises(DmcError, match=fact) as caught:
        InterpretedStep(context, model, loss, batch)
    assert caught.value.place and caught.value.hint


def _array(tensor: torch.Tensor) -> Any:
    if tensor.dtype == torch.bfloat16:
        return tensor.clone().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.clone().numpy()


def fingerprint(model: nn.Module) -> list[Any]:
    """What importing must not change: modes, attributes, tensors with their values and flags, hooks, random states."""
    facts: list[Any] = [torch.get_rng_state().tolist()]
    for name, module in model.named_modules():
        own = {key: value for key, value in vars(module).items() if key not in ("_parameters", "_buffers", "_modules")}
        facts.append((name, module.training, sorted((key, repr(value)) for key, value in own.items())))
        for key, tensor in {**parameters_of(module), **buffers_of(module)}.items():
            facts.append((name, key, None if tensor is None else _facts(tensor)))
    return facts


def _facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    grad = None if tensor.grad is None else tensor.grad.tolist()
    return id(tensor), tensor.tolist(), tensor.requires_grad, grad, hooks_of(tensor), version(tensor)
