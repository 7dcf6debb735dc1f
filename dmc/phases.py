"""The phases of a step, such as the critic's and the generator's of a GAN, as a user gives them, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from dmc import optim
from dmc.errors import DmcError
from dmc.importer.capture.own_loss import OfModel
from dmc.importer.capture.registered import describe

# What programs without phases are called.
_TAKEN = ("training", "evaluation")


@dataclass(frozen=True)
class Phase:
    """One of the phases of a step: a loss, and who trains what by it.

    loss: called as `loss(model, *example)`, returns a floating-point number or (number, auxiliary outputs). example: a
    batch, as for `dmc.compile`, or a list of those, one for each shape; () where the phase takes none. optimizer: of
    `torch.optim`, or a list of those, whose parameters the phase trains; or one of `dmc.optim`, and `parameters`: shell
    patterns joined by "|", such as "critic.*", by default all that the loss depends on. What the phase does not train
    stays as it is, to the bit. Two phases that are given the very same optimizer share its state. Without an optimizer,
    nothing is trained: what the loss writes in place is kept, as where it moves a target network, and it may return
    None. accumulate: as for `dmc.compile`.
    """

    loss: Callable[..., Any]
    example: Any
    optimizer: Any = None
    parameters: str | None = None
    accumulate: int | Sequence[int] = 1

    @property
    def called(self) -> OfModel:
        """The loss as the importer takes it."""
        return OfModel(self.loss, needs_loss=self.optimizer is not None)

    @property
    def trainer(self) -> Any:
        """The optimizer, of the parameters of this phase."""
        return self.optimizer if self.parameters is None else optim.Over(self.optimizer, self.parameters)


def check_phases(model: nn.Module, phases: Any, others: Mapping[str, Any], evaluation: Any, evaluated: Any) -> None:
    """Raises DmcError for phases that are none, or that do not fit the model or other arguments of `dmc.compile`.

    others: the arguments that each phase has of its own, by name, None where they are not given.
    """
    if not isinstance(phases, Mapping) or not phases:
        fact = f"expected a dictionary of phases by name, got {describe(phases)}"
        raise DmcError("phases", fact, hint='such as phases={"critic": dmc.Phase(loss, example, optimizer), …}')
    if given := [name for name, value in others.items() if value is not None]:
        fact = f"is given beside phases, each of which has its own: {', '.join(phases)}"
        raise DmcError(given[0], fact, hint=f"give it to each phase: dmc.Phase(…, {given[0]}=…)")
    for name, phase in phases.items():
        place = f"phase {name!r}"
        if not (isinstance(name, str) and name.isidentifier()) or name in _TAKEN:
            fact = f"has a name that is none: expected a Python identifier other than {' and '.join(_TAKEN)}"
            raise DmcError(place, fact, hint="rename it, as in critic or target_network")
        if not isinstance(phase, Phase):
            hint = "pass dmc.Phase(loss, example, optimizer)"
            raise DmcError(place, f"expected a dmc.Phase, got {describe(phase)}", hint)
        _check_phase(model, phase, place)
    if evaluation is True or (evaluation and evaluated is None):
        fact = "is True" if evaluation is True else "is given without an example"
        hint = "of a step with phases, pass a function of model and batch, and evaluation_example=…, a batch of its own"
        raise DmcError("evaluation", fact, hint)


def _check_phase(model: nn.Module, phase: Phase, place: str) -> None:
    if not callable(phase.loss) or isinstance(phase.loss, type):
        hint = "pass a function, called with the model and the batch: def loss(model, real, noise): …"
        raise DmcError(place, f"has a loss that is no function, but {describe(phase.loss)}", hint)
    if phase.parameters is not None and not isinstance(phase.optimizer, optim.Optimizer):
        what = "no optimizer" if phase.optimizer is None else "an optimizer of torch.optim, which has its own"
        hint = "leave parameters out, or pass an optimizer of dmc.optim"
        raise DmcError(place, f"has parameters='{phase.parameters}', but {what}", hint)
    if phase.optimizer is None:
        return
    try:
        optim.plan_for(model, phase.trainer)
    except DmcError as error:
        error.inside(place)
        raise


def check_all_trained(model: nn.Module, phases: Mapping[str, Any], changed: set[str]) -> None:
    """Raises DmcError for a parameter that requires a gradient, and that no phase trains or writes.

    phases: the optimizer of each, by name. changed: the names of what the programs change.
    """
    held = {
        name
        for optimizer in phases.values()
        if optimizer is not None
        for name in optim.plan_for(model, optimizer).group_of
    }
    left = [name for name, each in model.named_parameters() if each.requires_grad and name not in held | changed]
    if left:
        more = f", and {len(left) - 1} more" if len(left) > 1 else ""
        fact = f"requires a gradient{more}, but no phase trains it: {', '.join(phases)}"
        hint = "give it to the optimizer of a phase, or freeze it: parameter.requires_grad_(False)"
        raise DmcError(f"parameter '{left[0]}'", fact, hint)
