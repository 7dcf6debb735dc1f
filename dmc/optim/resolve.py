"""An optimizer resolved for the parameters of one model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dmc.errors import DmcError
from dmc.optim.base import FromTorch, Group, Optimizer, Over, Slot, known_options
from dmc.optim.taken_over import several, take_over

# The steps done, of a parameter that has done another number than the others.
OWN_COUNT = "step"


@dataclass(frozen=True)
class Plan:
    """An optimizer applied to named parameters.

    `groups[group_of[name]]` is the optimizer of parameter `name`; a name not in `group_of` is not trained. `state`
    holds tensors by "<parameter>.<slot>" that replace the initial ones; `counts` holds the steps a parameter has done,
    where its update depends on that. `apart` names parameters that not every step updates, so that each counts its own.
    """

    groups: tuple[Optimizer, ...]
    group_of: Mapping[str, int]
    clip_grad_norm: float | None
    state: Mapping[str, Any] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    apart: frozenset[str] = frozenset()

    def of(self, name: str) -> Optimizer:
        """The optimizer of a parameter."""
        return self.groups[self.group_of[name]]

    def steps_done(self, trained: Iterable[str]) -> int:
        """The number of steps that the parameters in `trained` have done, or the furthest of them."""
        return max((self.counts[name] for name in trained if name in self.counts), default=0)

    def slots(self, name: str, shape: tuple[int, ...], steps_done: int) -> tuple[Slot, ...]:
        """The slots of a parameter. One that joined later, so that it has not done so many steps, or that is apart,
        counts its own."""
        is_late = name in self.apart or self.counts.get(name, 0) != steps_done
        counts = is_late and self.of(name).counts_steps
        own = (Slot(OWN_COUNT, (), float(self.counts.get(name, 0)), "i64"),) if counts else ()
        return (*self.of(name).slots(shape), *own)


def plan_for(model: Any, optimizer: Any) -> Plan:
    """Resolves `optimizer` for the parameters of a model of PyTorch that require a gradient."""
    named = dict(model.named_parameters())
    trained = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
    return plan(optimizer, trained, [tensor for name, tensor in named.items() if name not in trained])


def holder(optimizer: Any, parameter: Any) -> int:
    """What tells the optimizer that holds a parameter apart from others: the same object is the same optimizer."""
    given = several(optimizer.optimizer if isinstance(optimizer, FromTorch | Over) else optimizer)
    for each in given:
        groups = () if isinstance(each, Optimizer) else each.param_groups
        if any(held is parameter for group in groups for held in group["params"]):
            return id(each)
    return id(given[0])


def plan(optimizer: Any, parameters: Mapping[str, Any], frozen: Iterable[Any] = ()) -> Plan:
    """Resolves `optimizer` (one of this package's, or a `torch.optim` instance, or a list of these) for `parameters`.

    frozen: what the model does not train, and an instance of `torch.optim` may hold all the same. Raises DmcError for
    an optimizer or option that is not supported, and for a group that matches nothing.
    """
    if isinstance(optimizer, Over):
        return plan(optimizer.optimizer, optimizer.of(parameters))
    if isinstance(optimizer, Optimizer):
        chosen = _own_plan(optimizer, list(parameters))
    else:
        given = optimizer if isinstance(optimizer, FromTorch) else FromTorch(optimizer)
        taken = take_over(given.optimizer, parameters, frozen)
        chosen = Plan(taken.groups, taken.group_of, given.clip_grad_norm, taken.state, taken.counts)
    _check(chosen, parameters)
    return chosen


def _own_plan(optimizer: Optimizer, names: list[str]) -> Plan:
    groups = [_resolved(optimizer)]
    group_of = dict.fromkeys(names, 0)
    free = list(names)
    for group in optimizer.groups:
        members = [name for name in free if group.matches(name)]
        if not members:
            raise DmcError(
                f"group '{group.params}'",
                "matches no parameter that is not already in another group",
                hint=f"parameters are named {', '.join(names[:4])}, …",
            )
        free = [name for name in free if name not in members]
        group_of.update(dict.fromkeys(members, len(groups)))
        groups.append(_resolved(_of_group(group, optimizer)))
    return Plan(tuple(groups), group_of, optimizer.clip_grad_norm)


def _of_group(group: Group, optimizer: Optimizer) -> Optimizer:
    own = group.optimizer
    if own is not None and (own.groups or own.clip_grad_norm is not None):
        hint = "give both to the outer optimizer: gradients are clipped by the norm of all together"
        raise DmcError(f"group '{group.params}'", "its optimizer has groups or clip_grad_norm", hint)
    settings = {"lr": group.lr, "weight_decay": group.weight_decay}
    return replace(own or optimizer, **{name: value for name, value in settings.items() if value is not None})


def _resolved(optimizer: Optimizer) -> Optimizer:
    """With plain numbers, and without what the plan holds."""
    return replace(optimizer, clip_grad_norm=None, groups=(), **known_options(type(optimizer), vars(optimizer)))


def _check(plan: Plan, parameters: Mapping[str, Any]) -> None:
    """Raises DmcError for meaningless settings: those that PyTorch refuses, and NaN."""
    clip = plan.clip_grad_norm
    if clip is not None and not (clip > 0.0 and math.isfinite(clip)):
        raise DmcError("clip_grad_norm", f"is {clip!r}", hint="give a positive number, or None for no clipping")
    for number, each in enumerate(plan.groups):
        group = f", group {number}" if len(plan.groups) > 1 else ""
        if fact := next(each.faults(), None):
            raise DmcError(f"optimizer {type(each).__name__}{group}", fact, hint="use the values that PyTorch accepts")
    for name in plan.group_of:
        shape = tuple(parameters[name].shape)
        if fact := plan.of(name).refuses(shape):
            hint = "give it another optimizer: groups=[dmc.optim.Group(pattern, optimizer=…)], or a list of optimizers"
            raise DmcError(f"parameter '{name}'", f"has shape {list(shape)}, but {fact}", hint)
    for name, count in plan.counts.items():
        if count < 0:
            raise DmcError("optimizer state", f"'{name}' has done {count} steps", hint="load the state unchanged")
