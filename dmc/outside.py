"""What a program changes outside of a compiled step: the rates of its optimizer, which the step follows, and what the
step cannot see, of which it warns once.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from dmc.errors import IgnoredChange
from dmc.optim import FromTorch, several

# The first calls look for changes at every power of two, later ones so often: a look costs as much as a small step.
_EVERY = 100
_SHOWN = 3

# What may change, and what to do then.
_STATE = "tensors of the model"
_WAYS = {
    _STATE: 'the step has its own; take them over by step.load_state_dict({"model": model.state_dict()})',
    "requires_grad": "the step trains what it did; compile it again to freeze or train others",
    "modes (train, eval)": "the step keeps those it was compiled with; for eval mode, call step.evaluate",
    "attributes": "the step keeps the values it was compiled with; compile it again",
    "settings of the optimizer": "the step follows its rates alone; compile it again (OneCycleLR and CyclicLR: pass "
    "cycle_momentum=False)",
}
_STALE = (
    "the model runs with the parameters that it had before the step trained: step.update(model) copies the step's into "
    "it, step.evaluate computes with them"
)


class Outside:
    """The objects from which a step was compiled, as long as they live: it keeps none of them alive."""

    def __init__(self, model: nn.Module, losses: Sequence[Any], optimizers: Mapping[str, Any]) -> None:
        """To be called once the step is compiled. The model gets a hook that reminds of `update`.

        optimizers: of each phase, or of "training".
        """
        self._of_phases = {phase: [*map(weakref.ref, _of_torch(each))] for phase, each in optimizers.items()}
        self._optimizers = [each for own in self._of_phases.values() for each in own]
        modules = [loss for loss in losses if isinstance(loss, nn.Module)]
        roots = {"": model, **{f"loss{number or ''}.": loss for number, loss in enumerate(modules)}}
        self._roots = {prefix: weakref.ref(root) for prefix, root in roots.items()}
        self._seen = self._facts()
        self._calls, self._next_look = 0, 1
        # The call after which the state was last given out: whoever has it may have put it into the model.
        self._given = 0
        self._was_given = False
        reminder = model.register_forward_pre_hook(_Reminder(self))
        self._forget = reminder.remove

    def rates(self, phase: str) -> tuple[float, ...] | None:
        """The present learning rate of each group; None where the optimizers are gone, or are not PyTorch's."""
        optimizers = [each() for each in self._of_phases[phase]]
        if not optimizers or None in optimizers:
            return None
        return tuple(float(group["lr"]) for each in optimizers if each is not None for group in each.param_groups)

    def is_of(self, model: nn.Module) -> bool:
        """Whether the step was compiled from this very model."""
        return self._roots[""]() is model

    def step(self) -> None:
        """Before a step; looks for changes, seldom."""
        self._calls += 1
        if self._calls == self._next_look:
            self._next_look += min(self._calls, _EVERY)
            self._look()

    def give(self) -> None:
        """The state was given out, and may be in the model now."""
        self._given, self._was_given = self._calls, True

    def model_runs(self) -> None:
        """Warns once if the step has trained since its state was last given out."""
        if self._calls > self._given:
            self._forget()
            warnings.warn(_STALE, IgnoredChange, stacklevel=6)

    def _look(self) -> None:
        if self._calls == 1:
            self._replace_optimizers()
        now = self._facts()
        for kind, before in self._seen.items():
            changed = [name for name, value in before.items() if now[kind].get(name, value) != value]
            if changed and not (kind == _STATE and self._was_given):
                names = ", ".join(changed[:_SHOWN]) + (", …" if len(changed) > _SHOWN else "")
                fact = f"{kind} changed after dmc.compile ({names}), which a compiled step does not see: {_WAYS[kind]}"
                warnings.warn(fact, IgnoredChange, stacklevel=6)
                # Once for each kind.
                now[kind] = {}
            elif not before:
                now[kind] = {}
        self._seen, self._was_given = now, False

    def _replace_optimizers(self) -> None:
        """PyTorch warns where a scheduler steps before its optimizer: the step takes the optimizer's place."""
        for each in self._optimizers:
            if (optimizer := each()) is not None:
                optimizer._opt_called = True  # pyright: ignore[reportAttributeAccessIssue]

    def _facts(self) -> dict[str, dict[str, Any]]:
        roots = {prefix: root for prefix, each in self._roots.items() if (root := each()) is not None}
        tensors = {name: tensor for prefix, root in roots.items() for name, tensor in _tensors(prefix, root)}
        modules = {f"{prefix}{path}": own for prefix, root in roots.items() for path, own in root.named_modules()}
        optimizers = [optimizer for each in self._optimizers if (optimizer := each()) is not None]
        groups = enumerate(group for optimizer in optimizers for group in optimizer.param_groups)
        return dict(
            zip(
                _WAYS,
                (
                    {name: tensor._version for name, tensor in tensors.items()},
                    {name: tensor.requires_grad for name, tensor in tensors.items()},
                    {path or "the model": own.training for path, own in modules.items()},
                    {
                        f"{path}.{name}".lstrip("."): value
                        for path, own in modules.items()
                        for name, value in _plain(own)
                    },
                    {f"{name} of group {i}": value for i, group in groups for name, value in _settings(group)},
                ),
                strict=True,
            )
        )


def _of_torch(optimizer: Any) -> list[torch.optim.Optimizer]:
    given = several(optimizer.optimizer if isinstance(optimizer, FromTorch) else optimizer)
    return [each for each in given if isinstance(each, torch.optim.Optimizer)]


class _Reminder:
    """A hook of a model. A copy of it, pickled or not, does nothing, and needs no dmc."""

    def __init__(self, outside: Outside) -> None:
        self._outside = weakref.ref(outside)

    def __call__(self, module: nn.Module, arguments: Any) -> None:
        outside = self._outside()
        if outside is not None:
            outside.model_runs()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # As a hook it gives back the arguments that it gets.
        return getattr, ({}, "get")


def forget(model: nn.Module) -> None:
    """Removes the hooks of steps that were compiled before: another is about to trace the model."""
    hooks: dict[int, Any] = vars(model)["_forward_pre_hooks"]
    for key in [key for key, hook in hooks.items() if isinstance(hook, _Reminder)]:
        del hooks[key]


def _tensors(prefix: str, root: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    for named in (root.named_parameters(), root.named_buffers()):
        yield from ((f"{prefix}{name}", tensor) for name, tensor in named)


def _plain(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in vars(module).items():
        if isinstance(value, bool | int | float | str) and name != "training" and not name.startswith("_"):
            yield name, value


def _settings(group: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """All but the rates. Tensors are left out: comparing them takes time."""
    for name, value in group.items():
        if name not in ("params", "lr", "initial_lr") and isinstance(value, bool | int | float | str | tuple):
            yield name, value
