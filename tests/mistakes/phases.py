"""Phases of a step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import dmc
from tests.mistakes.table import FEATURES, mistake
from tests.phased_models import Small, of_critic, of_generator

REAL, NOISE = torch.randn(4, 4), torch.randn(4, 3)


def _adam(module: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(module.parameters())


def _compiled(model: nn.Module | None = None, **changes: Any) -> Any:
    """Compiles a GAN with some phases and arguments in place of its own."""
    gan = Small() if model is None else model
    phases: dict[str, Any] = {
        "critic": dmc.Phase(of_critic, (REAL, NOISE), _adam(gan.get_submodule("critic"))),
        "generator": dmc.Phase(of_generator, (NOISE,), _adam(gan.get_submodule("generator"))),
    }
    phases |= {name: changes.pop(name) for name in [*changes] if isinstance(changes[name], dmc.Phase | tuple)}
    return dmc.compile(gan, phases={name: each for name, each in phases.items() if each}, progress=False, **changes)


@mistake("expected a dictionary of phases by name, got a list", r"dmc\.Phase\(loss, example, optimizer\)", "phases")
def phases_in_a_list() -> Any:
    return dmc.compile(Small(), phases=[dmc.Phase(of_critic, (REAL, NOISE))])  # pyright: ignore[reportArgumentType]


@mistake("expected a dmc.Phase, got a tuple", "pass dmc.Phase", "phase 'average'")
def phase_that_is_a_tuple() -> Any:
    return _compiled(average=(of_critic, (REAL, NOISE)))


@mistake("has a name that is none: expected a Python identifier", "rename it", "phase 'training'")
def phase_called_training() -> Any:
    return _compiled(training=dmc.Phase(of_critic, (REAL, NOISE)))


@mistake("is given beside phases, each of which has its own", r"dmc\.Phase\(…, loss=…\)", "loss")
def loss_beside_phases() -> Any:
    return _compiled(loss=nn.functional.mse_loss)


@mistake("has a loss that is no function, but a type", "pass a function", "phase 'critic'")
def loss_of_a_phase_is_a_class() -> Any:
    return _compiled(critic=dmc.Phase(nn.MSELoss, (REAL, NOISE), dmc.optim.SGD(lr=0.1)))


@mistake(
    "has a parameter that is not of this model", "create it for the model", "phase 'critic': optimizer torch.optim"
)
def optimizer_of_a_phase_of_another_model() -> Any:
    return _compiled(critic=dmc.Phase(of_critic, (REAL, NOISE), _adam(Small().critic)))


@mistake(
    "is trained by the phases critic and generator, which have different optimizers",
    "the very same optimizer",
    "parameter 'critic.0.weight'",
)
def one_parameter_and_two_optimizers() -> Any:
    everything = dmc.Phase(of_generator, (NOISE,), dmc.optim.Adam(lr=0.1))
    return _compiled(generator=everything)


@mistake("matches no parameter that requires a gradient", "parameters are named generator", "phase 'critic'")
def pattern_of_no_parameter() -> Any:
    return _compiled(critic=dmc.Phase(of_critic, (REAL, NOISE), dmc.optim.SGD(lr=0.1), "discriminator.*"))


@mistake("but an optimizer of torch.optim, which has its own", "leave parameters out", "phase 'critic'")
def pattern_beside_an_optimizer_of_torch() -> Any:
    model = Small()
    return _compiled(model, critic=dmc.Phase(of_critic, (REAL, NOISE), _adam(model.critic), "critic.*"))


@mistake(
    "and 3 more, but no phase trains it: critic", "give it to the optimizer of a phase, or freeze it", "generator.0"
)
def parameters_in_no_phase() -> Any:
    return _compiled(generator=())


@mistake(
    r"cannot be passed to of_generator.*too many positional", "the model and the whole example", "phase 'generator'"
)
def batch_that_the_loss_does_not_take() -> Any:
    model = Small()
    return _compiled(model, generator=dmc.Phase(of_generator, (REAL, NOISE), _adam(model.generator)))


@mistake(
    "expected a floating-point tensor of one element, got a NoneType", "return the loss", "phase 'generator': loss"
)
def phase_that_trains_without_a_loss() -> Any:
    def forgets(model: Any, noise: Tensor) -> None:
        of_generator(model, noise)

    model = Small()
    return _compiled(model, generator=dmc.Phase(forgets, (NOISE,), _adam(model.generator)))  # pyright: ignore


@mistake("is True", "a function of model and batch", "evaluation")
def evaluation_of_phases_without_a_function() -> Any:
    return _compiled(evaluation=True)


@mistake("is not given", r"optimizer=torch\.optim\.AdamW", "optimizer")
def neither_optimizer_nor_phases() -> Any:
    return dmc.compile(nn.Linear(FEATURES, 1), example=(torch.randn(2, FEATURES),))


@mistake("cuts the one loss of a model, and the phases critic, generator have one each", "leave it out", "pipeline")
def pipeline_of_phases() -> Any:
    plan = dmc.plan(dmc.Mesh(pp=2)).pipeline("pp", cut=["critic"], microbatches=2)
    return _compiled(plan=plan)
