"""The names of a step's state are those of the model's own `state_dict()`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import dmc
from dmc.errors import StateError
from dmc.importer.forward.precision import Precision
from dmc.importer.step import ImportedStep, import_step
from dmc.runtime.state import dictionaries as states
from tests import models


class Kept(nn.Module):
    """A buffer that is persistent, one that is not, a parameter that nothing reads, and tied weights."""

    kept: Tensor
    position: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.register_buffer("kept", torch.ones(2))
        self.register_buffer("position", torch.arange(2.0), persistent=False)
        self.unread = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        """f32[B, 2] → the same."""
        return self.second(self.first(x * self.kept + self.position))


def _imported(context: Any, model: nn.Module, loss: Any, example: Any) -> ImportedStep:
    return import_step(model, loss, dmc.optim.SGD(lr=0.1), example, Precision.FP32, 1, 0, context)


def _state(imported: ImportedStep) -> dict[str, Any]:
    arrays = [torch.zeros(spec.shape).numpy() for spec in imported.signature.state]
    return dict(states.build(imported.signature.state, arrays))


@pytest.mark.parametrize("name", ["gpt2", "bert", "resnet"])
def test_models_have_the_keys_of_pytorch(name: str, context: Any) -> None:
    case = models.build(name, dropout=0.0)
    state = _state(_imported(context, case.model, case.loss, case.example(0)))
    assert set(state["model"]) == set(case.model.state_dict())
    everything = {name for name, _ in (*case.model.named_parameters(), *case.model.named_buffers())}
    assert everything <= set(state["model"]) | set(state.get("other", {}))


def test_what_the_model_leaves_out_stands_apart(context: Any) -> None:
    model, x = Kept(), torch.zeros(1, 2)
    loss = nn.CrossEntropyLoss(weight=torch.ones(2))
    imported = _imported(context, model, loss, (x, torch.zeros(1, dtype=torch.int64)))
    state = _state(imported)
    assert set(state["model"]) == set(model.state_dict())
    assert set(state["other"]) == {"position", "loss.weight"}
    del state["other"]
    kept = [spec.name for spec, array in _flat(imported, state) if array is None]
    assert sorted(kept) == ["loss.weight", "position"]


def test_weights_alone_are_enough(context: Any) -> None:
    imported = _imported(context, Kept(), nn.functional.mse_loss, (torch.zeros(1, 2), torch.zeros(1, 2)))
    state = _state(imported)
    kept = {spec.name for spec, array in _flat(imported, {"model": state["model"]}) if array is None}
    assert kept == {"position", "step", "seed"}
    with pytest.raises(StateError, match="lacks the section 'seed'"):
        _flat(imported, {"model": state["model"], "optimizer": {}, "step": 0})


def _flat(imported: ImportedStep, state: dict[str, Any]) -> list[tuple[Any, Any]]:
    specs = imported.signature.state
    return list(zip(specs, states.flatten(specs, state), strict=True))
