"""Every optimizer and option does what `torch.optim` does, over six steps of a small network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.runtime import Step
from tests.compiled import clone_state, compile_case, model_state, train
from tests.eager import EagerTrainer, Together
from tests.models.case import Case
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

STEPS = 6
Make = Callable[..., torch.optim.Optimizer]


class Network(nn.Module):
    """A layer norm between two linear layers: weights, biases and norms to put into groups."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(12, 24)
        self.norm = nn.LayerNorm(24)
        self.down = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, 12] → f32[batch, 5]."""
        return self.down(torch.tanh(self.norm(self.up(x))))


def _case() -> Case:
    torch.manual_seed(0)
    return Case("network", Network(), nn.functional.cross_entropy, _example)


def _example(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(16, 12, generator=generator), torch.randint(5, (16,), generator=generator)


OPTIMIZERS: dict[str, tuple[Any, Make, dict[str, Any]]] = {
    "sgd": (dmc.optim.SGD, torch.optim.SGD, {"lr": 0.1}),
    "sgd-decay": (dmc.optim.SGD, torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1}),
    "momentum": (dmc.optim.SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    "nesterov": (dmc.optim.SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "dampening": (dmc.optim.SGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5}),
    "adam": (dmc.optim.Adam, torch.optim.Adam, {"lr": 1e-2, "betas": (0.8, 0.99)}),
    "adam-decay": (dmc.optim.Adam, torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "adamw": (dmc.optim.AdamW, torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1, "eps": 1e-8}),
}


class Networks(nn.Module):
    """A network for each name, side by side."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.each = nn.ModuleDict({name: Network() for name in names})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """f32[batch, 12] → f32[networks, batch, 5]."""
        return torch.stack([network(x) for network in self.each.values()])


def _sum_of_losses(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return len(scores) * nn.functional.cross_entropy(scores.flatten(0, 1), targets.repeat(len(scores)))


def _cases(names: Iterable[str]) -> Case:
    torch.manual_seed(0)
    return Case("networks", Networks(names), _sum_of_losses, _example)


def test_each_agrees_with_torch() -> None:
    case, eager = _cases(OPTIMIZERS), _cases(OPTIMIZERS)
    groups = [dmc.optim.Group(f"each.{n}.*", optimizer=own(**options)) for n, (own, _, options) in OPTIMIZERS.items()]
    step = compile_case(case, dmc.optim.SGD(lr=0.1, groups=groups))
    reference = Together(
        [make(eager.model.get_submodule(f"each.{n}").parameters(), **own) for n, (_, make, own) in OPTIMIZERS.items()]
    )
    _train_both(step, case, EagerTrainer(eager.model, eager.loss, reference))


@pytest.mark.parametrize("limit", [0.05, 100.0], ids=["clips", "never-clips"])
def test_clipping_by_global_norm(limit: float) -> None:
    own = dmc.optim.SGD(lr=0.1, momentum=0.9, clip_grad_norm=limit)
    _compare(own, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), clip_grad_norm=limit)


@pytest.mark.parametrize(("parts", "clip"), [(2, None), (4, 0.05)], ids=["2-plain", "4-clipped"])
def test_accumulation_averages_gradients(parts: int, clip: float | None) -> None:
    own = dmc.optim.SGD(lr=0.1, momentum=0.9, clip_grad_norm=clip)
    _compare(
        own,
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        accumulate=parts,
        clip_grad_norm=clip,
    )


def test_learning_rate_of_each_call() -> None:
    rates = [0.1, 0.0, 0.3, 0.01, 0.2, 0.05]
    _compare(dmc.optim.SGD(lr=9.0), lambda model: torch.optim.SGD(model.parameters(), lr=9.0), rates=rates)


def test_groups_by_name() -> None:
    groups = [dmc.optim.Group("*.bias|norm.*", weight_decay=0.0), dmc.optim.Group("down.*", lr=0.02)]
    _compare(dmc.optim.AdamW(lr=1e-2, weight_decay=0.5, groups=groups), _reference_groups)


def test_one_learning_rate_per_group() -> None:
    case = _case()
    groups = [dmc.optim.Group("down.*")]
    step = compile_case(case, dmc.optim.SGD(lr=0.1, groups=groups))
    start = clone_state(case.model)
    train(step, [case.example(0)], lr=[0.0, 0.1])
    after = model_state(step)
    moved = {name for name in start if not torch.equal(start[name], after[name])}
    assert moved == {"down.weight", "down.bias"}


def _reference_groups(model: nn.Module) -> torch.optim.Optimizer:
    named = dict(model.named_parameters())
    plain = [named[name] for name in ("up.bias", "norm.weight", "norm.bias", "down.bias")]
    groups = [
        {"params": [named["up.weight"]]},
        {"params": plain, "weight_decay": 0.0},
        {"params": [named["down.weight"]], "lr": 0.02},
    ]
    return torch.optim.AdamW(groups, lr=1e-2, weight_decay=0.5)


TAKEN_OVER: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda model: torch.optim.Adam(model.parameters(), lr=1e-2),
    "adamw-groups": _reference_groups,
}


@pytest.mark.parametrize("steps_before", [0, 3])
def test_torch_optimizers_are_taken_over_with_their_state(steps_before: int) -> None:
    case = _cases(TAKEN_OVER)
    optimizers = [make(case.model.get_submodule(f"each.{name}")) for name, make in TAKEN_OVER.items()]
    trainer = EagerTrainer(case.model, case.loss, Together(optimizers))
    for seed in range(steps_before):
        trainer.step(case.example(seed))
    # The optimizers still belong to the eager model: compiling takes copies.
    _train_both(compile_case(case, optimizers), case, trainer)


def _train_both(step: Step, case: Case, trainer: EagerTrainer) -> None:
    """Compares steps of both, from the state that both have; that of `case` may be the trainer's."""
    start, batches = clone_state(case.model), [case.example(seed) for seed in range(10, 10 + STEPS)]
    losses = train(step, batches)
    assert_losses_close(losses, [trainer.step(batch) for batch in batches], TOLERANCE["fp32"])
    assert_states_close(start, model_state(step), trainer.model.state_dict(), TOLERANCE["fp32"])


@pytest.mark.parametrize(
    ("optimizer", "fact"),
    [
        (lambda model: torch.optim.LBFGS(model.parameters()), "LBFGS"),
        (lambda model: torch.optim.Adam(model.parameters(), differentiable=True), "differentiable"),
        (lambda model: dmc.optim.SGD(lr=0.1, nesterov=True), "Nesterov"),
        (lambda model: dmc.optim.AdamW(groups=[dmc.optim.Group("no_such.*")]), "no_such"),
        (lambda model: object(), "object"),
    ],
)
def test_unsupported_optimizers_are_refused(optimizer: Callable[[nn.Module], Any], fact: str) -> None:
    case = _case()
    with pytest.raises(dmc.errors.DmcError, match=fact):
        compile_case(case, optimizer(case.model))


def _compare(
    own: Any, reference: Callable[[nn.Module], torch.optim.Optimizer], rates: list[float] | None = None, **trainer: Any
) -> None:
    case, eager = _case(), _case()
    start = clone_state(case.model)
    step = compile_case(case, own, accumulate=trainer.get("accumulate", 1))
    eager_trainer = EagerTrainer(eager.model, eager.loss, reference(eager.model), **trainer)
    losses: list[float] = []
    expected: list[float] = []
    for seed in range(STEPS):
        rate = None if rates is None else rates[seed]
        losses += train(step, [case.example(seed)], lr=rate)
        expected.append(eager_trainer.step(case.example(seed), rate))
    assert_losses_close(losses, expected, TOLERANCE["fp32"])
    assert_states_close(start, model_state(step), eager.model.state_dict(), TOLERANCE["fp32"])
