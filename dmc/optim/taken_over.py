"""Optimizers of `torch.optim`, taken over with their groups and state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dmc.errors import DmcError
from dmc.optim.adadelta import Adadelta
from dmc.optim.adafactor import Adafactor
from dmc.optim.adagrad import Adagrad
from dmc.optim.adam import Adam, AdamW
from dmc.optim.adamax import Adamax
from dmc.optim.base import Optimizer, known_options
from dmc.optim.muon import Muon
from dmc.optim.nadam import NAdam
from dmc.optim.radam import RAdam
from dmc.optim.rmsprop import RMSprop
from dmc.optim.sgd import SGD

# By the name of the class in `torch.optim`.
KINDS: Mapping[str, type[Optimizer]] = {
    kind.__name__: kind
    for kind in (SGD, Adam, AdamW, Adadelta, Adafactor, Adagrad, Adamax, Muon, NAdam, RAdam, RMSprop)
}


@dataclass
class TakenOver:
    """groups: of all optimizers, in order. The rest as in `dmc.optim.Plan`."""

    groups: tuple[Optimizer, ...] = ()
    group_of: dict[str, int] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def take_over(optimizer: Any, parameters: Mapping[str, Any], frozen: Iterable[Any] = ()) -> TakenOver:
    """The settings and the state of a `torch.optim` optimizer, or of a list of several, for `parameters` by name.

    What it holds of `frozen` is skipped, with its state, as PyTorch skips what has no gradient; a group of nothing else
    stays a group. Raises DmcError for another optimizer, an option that is not supported, and a parameter that is not
    of the model or occurs twice.
    """
    taken = TakenOver()
    name_of = {id(tensor): name for name, tensor in parameters.items()}
    skipped = {id(tensor) for tensor in frozen}
    for each in several(optimizer):
        kind = _kind_of(each)
        for group in each.param_groups:
            settings = _settings(kind, group)
            trained = [tensor for tensor in group["params"] if id(tensor) not in skipped]
            names = [_new_name(kind, name_of.get(id(tensor)), taken.group_of) for tensor in trained]
            taken.group_of |= dict.fromkeys(names, len(taken.groups))
            taken.groups += (settings,)
            held = zip(names, trained, strict=True)
            _take_state(taken, settings, {name: (tensor.shape, each.state.get(tensor, {})) for name, tensor in held})
    return taken


def _new_name(kind: type[Optimizer], name: str | None, known: Mapping[str, int]) -> str:
    if name is None:
        hint = (
            "create it for the model that is compiled, after anything that replaces parameters: of model.parameters()"
        )
        raise DmcError(f"optimizer {_place(kind)}", "has a parameter that is not of this model", hint)
    if name in known:
        raise DmcError(_place(kind), f"contains '{name}', which another group also contains")
    return name


def several(optimizer: Any) -> Sequence[Any]:
    """The optimizers in what a user may pass as one."""
    return optimizer if isinstance(optimizer, list | tuple) else [optimizer]


def _take_state(taken: TakenOver, settings: Optimizer, held: Mapping[str, tuple[Any, Mapping[str, Any]]]) -> None:
    """held: shape and state of each parameter of a group."""
    for name, (shape, slots) in held.items():
        wanted = [slot.name for slot in settings.slots(tuple(shape))]
        present = {slot: slots[slot] for slot in wanted if slots.get(slot) is not None}
        taken.state |= {f"{name}.{slot}": value for slot, value in present.items()}
        if settings.counts_steps or present:
            # PyTorch does not count SGD's steps; a momentum buffer shows that at least one was done.
            taken.counts[name] = int(slots["step"]) if "step" in slots else int(bool(present))


def _settings(kind: type[Optimizer], group: Mapping[str, Any]) -> Optimizer:
    if group.get("differentiable"):
        hint = "set differentiable=False: a compiled step is not differentiated"
        raise DmcError(_place(kind), "differentiable=True is not supported", hint)
    # Since PyTorch 2.8 AdamW is an Adam with this option.
    if kind is Adam and group.get("decoupled_weight_decay"):
        kind = AdamW
    return kind(**known_options(kind, group))


def _kind_of(optimizer: Any) -> type[Optimizer]:
    """The kind of a `torch.optim` class exactly: another class of that name may do anything."""
    kind = type(optimizer)
    # By name, so that this package does not import torch.
    if f"{kind.__module__}.".startswith("torch.optim.") and kind.__name__ in KINDS:
        return KINDS[kind.__name__]
    raise _unsupported(optimizer)


def _unsupported(given: Any) -> DmcError:
    """The error for what is no optimizer, or none of those here."""
    if isinstance(given, str):
        kind = next((each for each in KINDS if each.lower() == given.lower()), "AdamW")
        return DmcError("optimizer", f"is {given!r}", hint=f"pass an object: dmc.optim.{kind}(lr=1e-3)")
    if isinstance(given, type):
        of_model = "" if issubclass(given, Optimizer) else "model.parameters(), "
        name = f"{'dmc' if issubclass(given, Optimizer) else 'torch'}.optim.{given.__name__}"
        return DmcError("optimizer", f"is a class, {given.__name__}", hint=f"pass an object: {name}({of_model}lr=1e-3)")
    kind = type(given)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if ".lr_scheduler" in kind.__module__:
        hint = "pass the optimizer; step.scheduler(StepLR, step_size=10) makes a scheduler of a compiled step's rates"
        return DmcError(f"optimizer {name}", "is a scheduler", hint)
    return DmcError(
        f"optimizer {name}", "is not supported", hint=f"use one of torch.optim's {', '.join(KINDS)}, or of dmc.optim"
    )


def _place(kind: type[Optimizer]) -> str:
    return f"torch.optim.{kind.__name__}"
