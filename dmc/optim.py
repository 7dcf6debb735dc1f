"""The optimizers that a compiled step can carry. They mean what `torch.optim` of the same name means."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

from dmc.errors import DmcError


@dataclass(frozen=True)
class Group:
    """Parameters whose names match `params`, with their own settings; None keeps the optimizer's.

    `params`: shell patterns joined by "|", such as "*.bias|*norm*". The first group that matches a name takes it.
    """

    params: str
    lr: float | None = None
    weight_decay: float | None = None

    def matches(self, name: str) -> bool:
        """Whether the parameter `name` belongs to this group."""
        return any(fnmatchcase(name, pattern.strip()) for pattern in self.params.split("|"))


@dataclass(frozen=True)
class Optimizer:
    """What all optimizers share: global-norm clipping (None: no clipping) and groups."""

    lr: float
    weight_decay: float = 0.0
    clip_grad_norm: float | None = None
    groups: tuple[Group, ...] | list[Group] = ()


@dataclass(frozen=True)
class SGD(Optimizer):
    """Stochastic gradient descent with optional momentum (`torch.optim.SGD`)."""

    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam with decay added to the gradient (`torch.optim.Adam`)."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled decay (`torch.optim.AdamW`)."""

    lr: float = 1e-3
    weight_decay: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True)
class FromTorch:
    """A `torch.optim` optimizer taken over with its groups and state, plus what PyTorch keeps outside of it."""

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


@dataclass(frozen=True)
class Plan:
    """An optimizer applied to named parameters.

    `groups[group_of[name]]` are the settings of parameter `name`; a name not in `group_of` is not trained.
    `state` holds tensors by "<parameter>.<slot>" that replace the initial zeros; `step` counts the steps done.
    """

    groups: tuple[Settings, ...]
    group_of: dict[str, int]
    clip_grad_norm: float | None
    state: dict[str, Any]
    step: int


def plan(optimizer: Any, parameters: dict[str, Any]) -> Plan:
    """Resolves `optimizer` (one of this module's, or a `torch.optim` instance) for `parameters` by name.

    Raises DmcError for an optimizer or option that is not supported, and for a group that matches nothing.
    """
    if isinstance(optimizer, Optimizer):
        return _own_plan(optimizer, list(parameters))
    if isinstance(optimizer, FromTorch):
        return _torch_plan(optimizer.optimizer, optimizer.clip_grad_norm, parameters)
    return _torch_plan(optimizer, None, parameters)


def _own_plan(optimizer: Optimizer, names: list[str]) -> Plan:
    groups = [_settings(optimizer, optimizer.lr, optimizer.weight_decay)]
    group_of = dict.fromkeys(names, 0)
    free = list(names)
    for group in optimizer.groups:
        members = [name for name in free if group.matches(name)]
        if not members:
            raise DmcError(
                f"group '{group.params}'",
                "matches no parameter that is still free",
                hint=f"parameters are named {', '.join(names[:4])}, …",
            )
        free = [name for name in free if name not in members]
        lr = optimizer.lr if group.lr is None else group.lr
        decay = optimizer.weight_decay if group.weight_decay is None else group.weight_decay
        group_of.update(dict.fromkeys(members, len(groups)))
        groups.append(_settings(optimizer, lr, decay))
    return Plan(tuple(groups), group_of, optimizer.clip_grad_norm, {}, 0)


def _settings(optimizer: Optimizer, lr: float, weight_decay: float) -> Settings:
    if isinstance(optimizer, SGD):
        if optimizer.nesterov and (optimizer.momentum <= 0.0 or optimizer.dampening != 0.0):
            raise DmcError("SGD", "Nesterov momentum needs momentum > 0 and dampening = 0")
        kind = "momentum" if optimizer.momentum else "sgd"
        return Settings(kind, lr, weight_decay, optimizer.momentum, optimizer.dampening, optimizer.nesterov)
    if isinstance(optimizer, Adam | AdamW):
        kind = "adamw" if isinstance(optimizer, AdamW) else "adam"
        return Settings(kind, lr, weight_decay, betas=optimizer.betas, eps=optimizer.eps)
    raise _unsupported(type(optimizer).__name__)


def _torch_plan(optimizer: Any, clip: float | None, parameters: dict[str, Any]) -> Plan:
    kind_name = type(optimizer).__name__
    if kind_name not in ("SGD", "Adam", "AdamW") or not hasattr(optimizer, "param_groups"):
        raise _unsupported(kind_name)
    name_of = {id(tensor): name for name, tensor in parameters.items()}
    group_of: dict[str, int] = {}
    state: dict[str, Any] = {}
    steps: set[int] = set()
    settings = tuple(_torch_settings(kind_name, group) for group in optimizer.param_groups)
    for index, group in enumerate(optimizer.param_groups):
        for tensor in group["params"]:
            if (name := name_of.get(id(tensor))) is None:
                raise DmcError(f"torch.optim.{kind_name}", "holds a parameter that is not the model's")
            group_of[name] = index
            slots = optimizer.state.get(tensor, {})
            present = {slot: slots[slot] for slot in SLOTS[settings[index].kind] if slots.get(slot) is not None}
            state.update({f"{name}.{slot}": value for slot, value in present.items()})
            if "step" in slots:
                steps.add(int(slots["step"]))
    if len(steps) > 1:
        raise DmcError(f"torch.optim.{kind_name}", f"its parameters have done different numbers of steps: {steps}")
    # PyTorch does not count the steps of SGD; a momentum buffer shows that there was one.
    done = steps.pop() if steps else int(bool(state))
    return Plan(settings, group_of, clip, state, done)


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


def _unsupported(name: str) -> DmcError:
    return DmcError(
        f"optimizer {name}", "is not supported", hint="use SGD, Adam or AdamW, from dmc.optim or torch.optim"
    )
