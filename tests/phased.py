"""Models that are trained in phases, and eager's loop over the same phases."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import dmc
from tests.phased_models import (
    ActorCritic,
    Averaged,
    Gan,
    Shared,
    Small,
    actor_critic_optimizers,
    average,
    follow,
    following,
    gan_optimizers,
    of_actor,
    of_critic,
    of_critics,
    of_generator,
    of_network,
    of_one,
    of_other,
    of_temperature,
    one_optimizer,
    wasserstein,
    with_penalty,
)

# The loss of a model and a batch; what trains nothing returns none.
Loss = Callable[..., Tensor | None]
ROUNDS = 5


@dataclass(frozen=True)
class Case:
    """losses: of each phase. optimizers: of a model, one for each phase that trains. inputs: the shapes of a batch.

    order: the phases of one round, by default each once.
    """

    build: Callable[[], nn.Module]
    losses: Mapping[str, Loss]
    optimizers: Callable[[Any], Mapping[str, torch.optim.Optimizer]]
    inputs: Mapping[str, Sequence[Sequence[int]]]
    order: Sequence[str] = field(default=())

    def model(self) -> nn.Module:
        """A new model, always the same."""
        torch.manual_seed(0)
        return self.build()

    def batch(self, phase: str, seed: int = 0) -> tuple[Tensor, ...]:
        """A batch of a phase."""
        draw = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(*shape, generator=draw) for shape in self.inputs[phase])

    def phases(self, model: nn.Module) -> dict[str, dmc.Phase]:
        """As `dmc.compile` takes them."""
        own = self.optimizers(model)
        return {name: dmc.Phase(loss, self.batch(name), own.get(name)) for name, loss in self.losses.items()}

    def eager(self, model: nn.Module) -> Callable[..., float]:
        """One step of a phase of eager, on a batch; its loss."""
        own = self.optimizers(model)

        def step(phase: str, *batch: Tensor) -> float:
            model.zero_grad()
            loss = self.losses[phase](model, *batch)
            if phase in own:
                assert loss is not None
                loss.backward()
                own[phase].step()
            return 0.0 if loss is None else loss.item()

        return step


def assert_trains_like_eager(case: Case, between: Callable[[int, Any], Any] | None = None, **options: Any) -> Any:
    """Compiles, and compares the losses of five rounds and the state behind each with eager's; what eager leaves alone
    keeps its bits. between: called before each round with its number and the step, returns the step to go on with."""
    model = case.model()
    own = copy.deepcopy(model)
    eager, step = case.eager(own), dmc.compile(model, phases=case.phases(model), **options)
    for number in range(ROUNDS):
        step = step if between is None else between(number, step)
        for turn, phase in enumerate(case.order or case.losses):
            batch = case.batch(phase, 10 * number + turn)
            before, old = step.state_dict()["model"], copy.deepcopy(own.state_dict())
            loss, expected = step.phases[phase](*batch), eager(phase, *batch)
            assert float(loss) == pytest.approx(expected, rel=1e-4, abs=1e-6), (number, phase)
            after = step.state_dict()["model"]
            assert_state(after, own)
            kept = [name for name, tensor in own.state_dict().items() if tensor.equal(old[name])]
            assert all(after[name].equal(before[name]) for name in kept), phase
            assert kept or len(case.losses) == 1
    return step


def assert_state(state: Mapping[str, Tensor], model: nn.Module) -> None:
    """The tensors are the model's, up to rounding."""
    assert state.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        np.testing.assert_allclose(state[name].numpy(), tensor.numpy(), rtol=1e-3, atol=2e-5, err_msg=name)


_SEEN, _ACTION, _VALUE = (8, 3), (8, 2), (8, 1)
CASES = {
    "DCGAN": Case(
        Gan,
        {"critic": of_critic, "generator": of_generator},
        gan_optimizers,
        {"critic": [(4, 1, 8, 8), (4, 6, 1, 1)], "generator": [(4, 6, 1, 1)]},
    ),
    "WGAN-GP": Case(
        Small,
        {"critic": with_penalty, "generator": wasserstein},
        gan_optimizers,
        {"critic": [(8, 4), (8, 3), (8, 1)], "generator": [(8, 3)]},
        ["critic", "critic", "generator"],
    ),
    "SAC": Case(
        ActorCritic,
        {"critics": of_critics, "actor": of_actor, "temperature": of_temperature, "targets": follow},
        actor_critic_optimizers,
        {
            "critics": [_SEEN, _ACTION, _VALUE, _SEEN, _ACTION],
            **{name: [_SEEN, _ACTION] for name in ("actor", "temperature")},
            "targets": [],
        },
    ),
    "average": Case(
        Averaged,
        {"network": of_network, "average": average},
        lambda model: {"network": torch.optim.SGD(model.network.parameters(), lr=0.1, momentum=0.9)},
        {"network": [(8, 4), (8, 4)], "average": []},
    ),
    "average in the loss": Case(
        Averaged,
        {"network": following},
        lambda model: {"network": torch.optim.SGD(model.network.parameters(), lr=0.1)},
        {"network": [(8, 4), (8, 4)]},
    ),
    "shared layers": Case(
        Shared,
        {"one": of_one, "other": of_other},
        one_optimizer,
        {"one": [(8, 4), (8, 2)], "other": [(8, 4), (8, 3)]},
        ["one", "other", "other"],
    ),
}
