"""What an optimizer is: its options, the state that it keeps of each parameter, and the rule of its update.

A subclass of `Optimizer` is a frozen dataclass with the options of the `torch.optim` class of its name. Its rule is
PyTorch on f32 tensors: everything that optimizers share (clipping, weight decay, the guard against a loss that is not
finite, types) happens around it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dmc.errors import DmcError

# Programs that only describe a step, such as a command line, need not load it.
if TYPE_CHECKING:
    from torch import Tensor

# By the name of an option, the least and the largest value.
Limits = Mapping[str, tuple[float, float]]
BELOW_ONE = math.nextafter(1.0, 0.0)
ANY = (-math.inf, math.inf)
# The largest number in f32, in which rules compute.
LARGEST = (2.0 - 2.0**-23) * 2.0**127
# What all optimizers have, and no rule reads.
_SHARED = ("lr", "clip_grad_norm", "groups", "maximize")


@dataclass(frozen=True)
class Slot:
    """A tensor that an optimizer keeps for each parameter, named as in PyTorch.

    dtype: of a number; a tensor has the parameter's type.
    """

    name: str
    shape: tuple[int, ...]
    initial: float = 0.0
    dtype: str = ""


@dataclass(frozen=True)
class Group:
    """Parameters whose names match `params`, with their own settings; None keeps the optimizer's.

    params: shell patterns joined by "|", such as "*.bias|*norm*". The first group that matches a name takes it; one
    that gets no parameter is refused by DmcError when a step is compiled. optimizer: another optimizer for these
    parameters, also of another kind.
    """

    params: str
    lr: float | None = None
    weight_decay: float | None = None
    optimizer: Optimizer | None = None

    def matches(self, name: str) -> bool:
        """Whether the parameter `name` belongs to this group."""
        return any(fnmatchcase(name, pattern.strip()) for pattern in self.params.split("|"))


@dataclass(frozen=True)
class Over:
    """An optimizer of some of the parameters: of those whose names match `params`, as those of a `Group` do."""

    optimizer: Optimizer
    params: str

    def of(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the parameters. Raises DmcError where there are none."""
        group = Group(self.params)
        found = {name: tensor for name, tensor in parameters.items() if group.matches(name)}
        if not found:
            hint = f"parameters are named {', '.join([*parameters][:4])}, …"
            raise DmcError(f"parameters='{self.params}'", "matches no parameter that requires a gradient", hint)
        return found


@dataclass(frozen=True)
class Optimizer:
    """The options that all optimizers share. Meaningless ones are refused by DmcError when a step is compiled.

    lr: the learning rate of calls that are given none. weight_decay: how much of a parameter is added to its gradient,
    or, where it is decoupled, how much of it a step takes off for each unit of the learning rate. clip_grad_norm: the
    largest norm of the gradients of all parameters that the step trains, together, as
    `torch.nn.utils.clip_grad_norm_` limits it; None for no clipping. groups: parameters with their own settings.
    maximize: whether steps go uphill.
    """

    lr: float
    weight_decay: float = 0.0
    clip_grad_norm: float | None = None
    groups: tuple[Group, ...] | list[Group] = ()
    maximize: bool = field(default=False, kw_only=True)

    # Of the options that are not any number of at least 0.
    limits: ClassVar[Limits] = {}
    # Whether PyTorch counts the steps in its state, as `step`.
    is_counted: ClassVar[bool] = True
    # Whether PyTorch has a state before the first step.
    begins_with_state: ClassVar[bool] = False

    @property
    def counts_steps(self) -> bool:
        """Whether an update depends on the number of earlier ones."""
        return self.is_counted

    @property
    def is_decoupled(self) -> bool:
        """Whether the decay is taken off the parameter (Loshchilov and Hutter, 2019), not added to its gradient."""
        return False

    def kind(self, shape: Sequence[int]) -> str:
        """A name of the rule for a parameter of this shape: equal only if all but the numbers in it is equal."""
        parts = [type(self).__name__.lower()]
        for each in _own(self):
            value = getattr(self, each.name)
            if not _numbers(value) and value != each.default:
                parts.append(each.name if value is True else f"{each.name}_{value}".lower())
        return "_".join(parts)

    def numbers(self) -> tuple[str, ...]:
        """The options with numbers that the rule reads."""
        return ("weight_decay", *(each.name for each in _own(self) if _numbers(getattr(self, each.name))))

    def constants(self) -> dict[str, float]:
        """The numbers in the rule, by name; those of a tuple such as `betas` are `beta1`, `beta2`."""
        found: dict[str, float] = {}
        for name in self.numbers():
            value = getattr(self, name)
            numbered = {f"{name.removesuffix('s')}{i + 1}": number for i, number in enumerate(_numbers(value))}
            found |= numbered if isinstance(value, tuple) else {name: value}
        return found

    def with_constants(self, numbers: Iterable[float]) -> Self:
        """The same rule with other numbers, in the order of `constants`."""
        left = iter(numbers)
        options: dict[str, Any] = {}
        for name in self.numbers():
            value = getattr(self, name)
            options[name] = tuple(next(left) for _ in value) if isinstance(value, tuple) else next(left)
        return replace(self, **options)

    def for_type(self, epsilon: float) -> Self:
        """The same for a parameter of a type with this machine epsilon."""
        del epsilon
        return self

    def refuses(self, shape: tuple[int, ...]) -> str:
        """Why a parameter of this shape cannot be updated; "" where it can."""
        del shape
        return ""

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """What is kept of a parameter of this shape."""
        del shape
        return ()

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """What the updates of all parameters of a group share, f32 or bool []. count: the number of this step from 1,
        f32 []. lr: the group's rate, f32 []."""
        del count, lr
        return ()

    def advance(self, numbers: Sequence[Tensor], scalars: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The new numbers among the slots of one parameter (those with a `dtype`), [] each, from the old ones and the
        shared `scalars`."""
        del numbers, scalars
        return ()

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """What is taken off a parameter, and its new slots other than numbers: f32, of the shapes of `old` and `slots`.

        old: the parameter, f32. slope: its gradient, clipped, with a decay that is not decoupled, f32. slots: the old
        ones other than numbers, f32. lr: the group's rate, f32 []. scalars: the shared ones, then the new numbers.
        """
        raise NotImplementedError

    def faults(self) -> Iterator[str]:
        """What is wrong with the options: what PyTorch refuses, and NaN."""
        for each in (*_own(self), *(shared for shared in fields(self) if shared.name in ("lr", "weight_decay"))):
            least, most = self.limits.get(each.name, (0.0, math.inf))
            value = getattr(self, each.name)
            bad = [n for n in _numbers(value) if not (least <= n <= most and math.isfinite(n))]
            if bad:
                verb = "are" if isinstance(value, tuple) else "is"
                yield f"{each.name} {verb} {value!r}: not finite, or not {_range(least, most)}"
            elif any(abs(n) > LARGEST for n in _numbers(value)):
                yield f"{each.name} is {value!r}: not finite in float32"


@dataclass(frozen=True)
class FromTorch:
    """What `torch.optim` has, taken over with groups and state, plus what PyTorch keeps outside it.

    optimizer: an optimizer of parameters of the model, or a list of several; frozen ones are skipped. clip_grad_norm:
    as in `Optimizer`, of all gradients that the optimizers hold: one of a parameter that is in none of them counts in
    `clip_grad_norm_(model.parameters())`, but not here.
    """

    optimizer: Any
    clip_grad_norm: float | None = None


def lerp(start: Tensor, end: Tensor, weight: float) -> Tensor:
    """Like PyTorch's, from the nearer end: this matters for an infinite gradient."""
    return start + (end - start) * weight if weight < 0.5 else end - (end - start) * (1.0 - weight)


def correction(count: Tensor, beta: float) -> Tensor:
    """1 - βᵗ by expm1: subtraction from one would lose significant digits in the first steps."""
    return -(count * math.log(beta)).expm1() if beta > 0.0 else count.new_ones([])


def known_options(kind: type[Optimizer], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the values `given` that are options of the optimizer `kind`, as plain numbers."""
    names = {each.name: each.type for each in fields(kind) if each.name not in ("clip_grad_norm", "groups")}
    return {name: _plain(given[name], str(names[name])) for name in names if name in given}


def _own(optimizer: Optimizer) -> list[Any]:
    return [each for each in fields(optimizer) if each.name not in (*_SHARED, "weight_decay")]


def _numbers(value: Any) -> tuple[float, ...]:
    """The numbers in an option's value: it is one, or a tuple of them."""
    if isinstance(value, tuple):
        return tuple(each for each in value if each is not None)
    return (value,) if isinstance(value, float) else ()


def _plain(value: Any, annotation: str) -> Any:
    """PyTorch takes tensors and integers for numbers."""
    if isinstance(value, tuple | list):
        return tuple(_plain(each, annotation) for each in value)
    return value if value is None or "float" not in annotation else float(value)


def _range(least: float, most: float) -> str:
    if most == math.inf:
        return f"at least {least:g}"
    return (
        f"at most {most:g}" if least == -math.inf else f"in [{least:g}, {'1)' if most == BELOW_ONE else f'{most:g}]'}"
    )
