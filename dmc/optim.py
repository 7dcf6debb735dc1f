"""The optimizers that a compiled step can contain, with the semantics of `torch.optim`'s of the same name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from dmc.errors import DmcError


@dataclass(frozen=True)
class Group:
    """Parameters whose names match `params`, with their own settings; None keeps the optimizer's.

    params: shell patterns joined by "|", such as "*.bias|*norm*". The first group that matches a name takes it; one
    that gets no parameter is refused by DmcError when a step is compiled.
    """

    params: str
    lr: float | None = None
    weight_decay: float | None = None

    def matches(self, name: str) -> bool:
        """Whether the parameter `name` belongs to this group."""
        return any(fnmatchcase(name, pattern.strip()) for pattern in self.params.split("|"))


@dataclass(frozen=True)
class Optimizer:
    """The options that all optimizers share. Meaningless ones are refused by DmcError when a step is compiled.

    lr: the learning rate of calls that are given none. weight_decay: how much of a parameter is added to its gradient,
    or, by AdamW, how much of it a step takes off for each unit of the learning rate. clip_grad_norm: the largest norm
    of all gradients together, as `torch.nn.utils.clip_grad_norm_` limits it; None for no clipping. groups: parameters
    with their own settings.
    """

    lr: float
    weight_decay: float = 0.0
    clip_grad_norm: float | None = None
    groups: tuple[Group, ...] | list[Group] = ()


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent with optional momentum (`torch.optim.SGD`).

    momentum: the share of the last step that is repeated. dampening: the share of the gradient that is left out of the
    momentum. nesterov: whether the gradient is added once more, which requires momentum and no dampening.
    """

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam with decay added to the gradient (`torch.optim.Adam`).

    betas: the shares of the old means of gradients and of their squares, in [0, 1). eps: added to the root of the
    latter.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled decay (`torch.optim.AdamW`).

    betas, eps: as in `Adam`.
    """

    lr: float = 1e-3
    weight_decay: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True)
class FromTorch:
    """A `torch.optim` optimizer taken over with its groups and state, plus what PyTorch keeps outside it.

    optimizer: SGD, Adam or AdamW of `torch.optim`, of parameters of the model. clip_grad_norm: as in `Optimizer`.
    """

    optimizer: Any
    clip_grad_norm: float | None = None


Kind = Literal["sgd", "momentum", "adam", "adamw"]
SLOTS: dict[Kind, tuple[str, ...]] = {
    "sgd": (),
    "momentum": ("momentum_buffer",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
}


@dataclass(frozen=True)
class Settings:
    """The settings of one parameter group, fully resolved."""

    kind: Kind
    lr: float
    weight_decay: float
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    @property
    def counts_steps(self) -> bool:
        """Whether an update depends on the number of earlier ones: Adam's bias correction does; dampening skips the
        first."""
        return self.kind in ("adam", "adamw") or (self.kind == "momentum" and self.dampening != 0.0)


@dataclass(frozen=True)
class Plan:
    """An optimizer applied to named parameters.

    `groups[group_of[name]]` are the settings of parameter `name`; a name not in `group_of` is not trained. `state`
    holds tensors by "<parameter>.<slot>" that replace the initial zeros; `counts` holds the steps a parameter has done,
    where its update depends on that.
    """

    groups: tuple[Settings, ...]
    group_of: dict[str, int]
    clip_grad_norm: float | None
    state: dict[str, Any]
    counts: dict[str, int]

    def steps_done(self, trained: Iterable[str]) -> int:
        """The number of steps that all parameters in `trained` have done; raises DmcError where they differ."""
        counted = [name for name in trained if name in self.counts]
        if not counted:
            return 0
        least, most = (best(counted, key=self.counts.__getitem__) for best in (min, max))
        if self.counts[least] != self.counts[most]:
            raise DmcError(
                "optimizer state",
                f"'{least}' has done {self.counts[least]} steps, but '{most}' {self.counts[most]}",
                hint="a compiled step keeps one step count for all parameters: where some join later, start a new "
                "optimizer, or pass it all parameters from the first step on",
            )
        return self.counts[least]


def plan(optimizer: Any, parameters: dict[str, Any]) -> Plan:
    """Resolves `optimizer` (one of this module's, or a `torch.optim` instance) for `parameters` by name.

    Raises DmcError for an optimizer or option that is not supported, and for a group that matches nothing.
    """
    if isinstance(optimizer, Optimizer):
        chosen = _own_plan(optimizer, list(parameters))
    elif isinstance(optimizer, FromTorch):
        chosen = _torch_plan(optimizer.optimizer, optimizer.clip_grad_norm, parameters)
    else:
        chosen = _torch_plan(optimizer, None, parameters)
    _check(chosen)
    return chosen


def _check(plan: Plan) -> None:
    """Raises DmcError for meaningless settings: those that PyTorch refuses, and NaN."""
    clip = plan.clip_grad_norm
    if clip is not None and not (clip > 0.0 and math.isfinite(clip)):
        raise DmcError("clip_grad_norm", f"is {clip!r}", hint="give a positive number, or None for no clipping")
    for number, each in enumerate(plan.groups):
        place = f"optimizer {each.kind}, group {number}" if len(plan.groups) > 1 else f"optimizer {each.kind}"
        for name in ("lr", "weight_decay", "momentum", "eps"):
            value = getattr(each, name)
            if not (value >= 0.0 and math.isfinite(value)):
                raise DmcError(place, f"{name} is {value!r}", hint="use a finite number of at least 0")
        if bad := [beta for beta in each.betas if not 0.0 <= beta < 1.0]:
            raise DmcError(place, f"betas are {each.betas}, of which {bad[0]!r}", hint="use numbers in [0, 1)")
        if not math.isfinite(each.dampening):
            raise DmcError(place, f"dampening is {each.dampening!r}", hint="use a finite number")
        if each.nesterov and (each.momentum <= 0.0 or each.dampening != 0.0):
            raise DmcError(place, "Nesterov momentum requires momentum > 0 and dampening = 0")
    for name, count in plan.counts.items():
        if count < 0:
            raise DmcError("optimizer state", f"'{name}' has done {count} steps", hint="load the state unchanged")


def _own_plan(optimizer: Optimizer, names: list[str]) -> Plan:
    groups = [_settings(optimizer, optimizer.lr, optimizer.weight_decay)]
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
        lr = optimizer.lr if group.lr is None else group.lr
        decay = optimizer.weight_decay if group.weight_decay is None else group.weight_decay
        group_of.update(dict.fromkeys(members, len(groups)))
        groups.append(_settings(optimizer, lr, decay))
    return Plan(tuple(groups), group_of, optimizer.clip_grad_norm, {}, {})


def _settings(optimizer: Optimizer, lr: float, weight_decay: float) -> Settings:
    if isinstance(optimizer, SGD):
        kind = "momentum" if optimizer.momentum else "sgd"
        return Settings(kind, lr, weight_decay, optimizer.momentum, optimizer.dampening, optimizer.nesterov)
    if isinstance(optimizer, Adam | AdamW):
        kind = "adamw" if isinstance(optimizer, AdamW) else "adam"
        return Settings(kind, lr, weight_decay, betas=optimizer.betas, eps=optimizer.eps)
    raise _unsupported(type(optimizer).__name__)


def _torch_plan(optimizer: Any, clip: float | None, parameters: dict[str, Any]) -> Plan:
    kind_name = _torch_kind(optimizer)
    name_of = {id(tensor): name for name, tensor in parameters.items()}
    group_of: dict[str, int] = {}
    state: dict[str, Any] = {}
    settings = tuple(_torch_settings(kind_name, group) for group in optimizer.param_groups)
    counts: dict[str, int] = {}
    for index, group in enumerate(optimizer.param_groups):
        for tensor in group["params"]:
            if (name := name_of.get(id(tensor))) is None:
                raise DmcError(f"torch.optim.{kind_name}", "contains a parameter that does not belong to the model")
            group_of[name] = index
            slots = optimizer.state.get(tensor, {})
            present = {slot: slots[slot] for slot in SLOTS[settings[index].kind] if slots.get(slot) is not None}
            state.update({f"{name}.{slot}": value for slot, value in present.items()})
            if settings[index].counts_steps or present:
                # PyTorch does not count SGD's steps; a momentum buffer shows that at least one was done.
                counts[name] = int(slots["step"]) if "step" in slots else int(bool(present))
    return Plan(settings, group_of, clip, state, counts)


def _torch_settings(kind_name: str, group: dict[str, Any]) -> Settings:
    for option in ("amsgrad", "maximize", "differentiable"):
        if group.get(option):
            raise DmcError(f"torch.optim.{kind_name}", f"{option}=True is not supported", hint=f"set {option}=False")
    lr, decay = float(group["lr"]), float(group["weight_decay"])
    if kind_name == "SGD":
        kind: Kind = "momentum" if group["momentum"] else "sgd"
        return Settings(kind, lr, decay, group["momentum"], group["dampening"], group["nesterov"])
    decoupled = kind_name == "AdamW" or group.get("decoupled_weight_decay", False)
    betas = (float(group["betas"][0]), float(group["betas"][1]))
    return Settings("adamw" if decoupled else "adam", lr, decay, betas=betas, eps=group["eps"])


def _torch_kind(optimizer: Any) -> str:
    """The `torch.optim` class that this is exactly: another class of that name may do anything."""
    kind = type(optimizer)
    # By name, so that this module does not import torch.
    if kind.__module__.startswith("torch.optim.") and kind.__name__ in ("SGD", "Adam", "AdamW"):
        return kind.__name__
    raise _unsupported(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def _unsupported(name: str) -> DmcError:
    return DmcError(
        f"optimizer {name}", "is not supported", hint="use SGD, Adam or AdamW, from dmc.optim or torch.optim"
    )
