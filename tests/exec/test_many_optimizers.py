"""Every optimizer in one step: created, taken over with its state, given back, and with its state split over ranks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.errors import StateError
from dmc.verification.lion import Lion
from tests.compiled import clone_state, compile_case, model_state, train
from tests.eager import EagerTrainer, Together
from tests.large import large
from tests.models.case import Case
from tests.tolerance import TOLERANCE, Tolerance, assert_losses_close, assert_states_close

# The variance of RAdam is rectified from the sixth on.
STEPS = 7
# One layer each. Rates are such that all layers learn about as fast.
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "adadelta": ("Adadelta", {"lr": 1.0, "weight_decay": 0.1}),
    "adafactor": ("Adafactor", {"lr": 0.05, "weight_decay": 0.1}),
    "adagrad": ("Adagrad", {"lr": 0.05, "lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    "adamax": ("Adamax", {"lr": 0.05, "maximize": True}),
    # Of a long mean the largest would be the last.
    "amsgrad": ("AdamW", {"lr": 0.05, "amsgrad": True, "eps": 1e-4, "betas": (0.9, 0.3)}),
    "lion": ("Lion", {"lr": 0.01, "weight_decay": 0.1}),
    "muon": ("Muon", {"lr": 0.05}),
    "nadam": ("NAdam", {"lr": 0.05, "decoupled_weight_decay": True, "weight_decay": 0.1}),
    "radam": ("RAdam", {"lr": 0.05}),
    "rmsprop": ("RMSprop", {"lr": 0.01, "eps": 1e-4}),
    "centered": ("RMSprop", {"lr": 0.01, "eps": 1e-4, "momentum": 0.9, "centered": True}),
}
# bf16 inside Muon: the order of a sum decides how it is rounded.
ROUNDED = Tolerance(loss=1e-3, value=1e-2, change=5e-2, floor=1e-6, reason="products in bf16")
SIZE = 8


class Layers(nn.Module):
    """A layer for each optimizer, side by side; the biases of matrices that Muon updates are another's."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(SIZE, 4, bias=name != "muon") for name in OPTIONS})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, 8] → f32[layers, batch, 4]."""
        return torch.stack([torch.tanh(layer(x)) for layer in self.layers.values()])


def _case() -> Case:
    torch.manual_seed(0)
    return Case("layers", Layers(), _loss, _example)


def _loss(made: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return (made - wanted).square().sum(0).mean()


def _example(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, SIZE, generator=generator), torch.randn(16, 4, generator=generator)


def _own() -> Any:
    """Each layer by its group."""
    named = {name: getattr(dmc.optim, kind)(**options) for name, (kind, options) in OPTIONS.items()}
    return dmc.optim.SGD(lr=0.1, groups=[dmc.optim.Group(f"layers.{n}.*", optimizer=o) for n, o in named.items()])


def _torch(model: Any, has_lion: bool = True) -> list[torch.optim.Optimizer]:
    """Without Lion, which is not PyTorch's, its layer has SGD."""
    sgd: dict[str, Any] = {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}
    named = OPTIONS if has_lion else {**OPTIONS, "lion": ("SGD", sgd)}
    kinds: dict[str, Any] = {
        name: Lion if kind == "Lion" else getattr(torch.optim, kind) for name, (kind, _) in named.items()
    }
    return [kinds[name](model.layers[name].parameters(), **options) for name, (_, options) in named.items()]


def _trainer(case: Case, optimizers: list[torch.optim.Optimizer]) -> EagerTrainer:
    return EagerTrainer(case.model, case.loss, Together(optimizers))


def _assert_close(start: Any, actual: Any, expected: Any) -> None:
    of_muon = {name for name in expected if ".muon." in name}
    for names, tolerance in ((expected.keys() - of_muon, TOLERANCE["fp32"]), (of_muon, ROUNDED)):
        before, ours, theirs = ({name: each[name] for name in names} for each in (start, actual, expected))
        assert_states_close(before, ours, theirs, tolerance)


def test_each_agrees_with_torch() -> None:
    """Also when the compiler verifies the first step."""
    case, eager = _case(), _case()
    start = clone_state(case.model)
    step = compile_case(case, _own(), verify=True)
    batches = [_example(seed) for seed in range(STEPS)]
    trainer = _trainer(eager, _torch(eager.model))
    assert_losses_close(train(step, batches), [trainer.step(batch) for batch in batches], ROUNDED)
    _assert_close(start, model_state(step), eager.model.state_dict())


def test_each_is_taken_over_and_given_back() -> None:
    """Two steps in eager, then some compiled, then two in eager; one bias joins after the first two."""
    case, eager = _case(), _case()
    optimizers, expected = _torch(case.model, has_lion=False), _torch(eager.model, has_lion=False)
    for each, own in ((case, optimizers), (eager, expected)):
        late = [each.model.get_parameter(f"layers.{name}.bias") for name in ("amsgrad", "lion")]
        for bias in late:
            bias.requires_grad_(False)
        trainer = _trainer(each, own)
        for seed in range(2):
            trainer.step(_example(seed))
        for bias in late:
            bias.requires_grad_(True)
    start = clone_state(case.model)
    step = compile_case(case, optimizers)
    assert int(step.state_dict()["optimizer"]["layers.amsgrad.bias.step"]) == 0
    train(step, [_example(seed) for seed in range(2, 4)])
    trainer = _trainer(eager, expected)
    for seed in range(2, 4):
        trainer.step(_example(seed))
    _assert_close(start, model_state(step), eager.model.state_dict())

    back = _torch(case.model, has_lion=False)
    case.model.load_state_dict(step.state_dict()["model"])
    for each in back:
        each.load_state_dict(copy.deepcopy(step.torch_optimizer_state(each, case.model)))
    own_trainer = _trainer(case, back)
    for seed in range(4, 6):
        own_trainer.step(_example(seed))
        trainer.step(_example(seed))
    _assert_close(start, case.model.state_dict(), eager.model.state_dict())
    with pytest.raises(StateError, match=r"is RMSprop, which keeps square_avg of .*, but the step keeps grad_avg, mom"):
        step.torch_optimizer_state(
            torch.optim.RMSprop(case.model.get_submodule("layers.centered").parameters()), case.model
        )


# ZeRO-3 also splits what ZeRO-2 does.
@pytest.mark.parametrize("zero", [pytest.param(2, marks=large), 3])
def test_state_is_split_like_its_parameter(zero: int) -> None:
    """Two ranks have the results of one; what relates the elements of a parameter to each other is of the whole."""
    case, alone = _case(), _case()
    start = clone_state(case.model)
    plan = dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp", zero=zero)
    step = compile_case(case, _own(), mesh=plan.mesh, plan=plan)
    splits = step.signature.splits
    assert splits["layers.radam.weight.exp_avg_sq"] == splits["layers.muon.weight.momentum_buffer"]
    assert "layers.adafactor.weight.row_var" not in splits
    batches = [_example(seed) for seed in range(STEPS)]
    trainer = _trainer(alone, _torch(alone.model))
    assert_losses_close(train(step, batches), [trainer.step(batch) for batch in batches], ROUNDED)
    _assert_close(start, model_state(step), alone.model.state_dict())
