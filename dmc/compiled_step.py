"""A compiled step as PyTorch users see it: torch tensors, schedulers, and the way back to `torch.optim`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from dmc import optim
from dmc.errors import DmcError, StateError
from dmc.first_values import initialise
from dmc.outside import Outside
from dmc.runtime.checks import LearningRates, rates_of
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.process.settings import RunSettings
from dmc.runtime.state import dictionaries as states
from dmc.runtime.state.dictionaries import StateDict
from dmc.runtime.state.saved_state import SavedState
from dmc.runtime.step import Step
from dmc.runtime.step_phase import Phases, StepPhase
from dmc.runtime.tensors.arrays import are_zeros
from dmc.runtime.variant import Batch
from dmc.runtime.world.launch import World

Scheduler = TypeVar("Scheduler")
_DEFAULT = RunSettings()


class CompiledStep(Step):
    """A compiled training step whose state dictionaries hold torch tensors; see `dmc.runtime.Step`.

    Without `lr`, it follows the rates of the `torch.optim` optimizer that it was compiled with, as long as that lives:
    `optimizer.param_groups[0]["lr"] = 1e-4`, or a scheduler of that optimizer. Other changes of the optimizer or the
    model after compilation have no effect on it; of most of them it warns once (`dmc.errors.IgnoredChange`).
    """

    def __init__(
        self,
        artifact: Artifact,
        device: str | None = None,
        world: World | None = None,
        settings: RunSettings = _DEFAULT,
        outside: Outside | None = None,
    ) -> None:
        """outside: what the step was compiled from, where that was in this process."""
        super().__init__(artifact, device, world, settings)
        self._outside = outside
        self._followed = {kind: None if outside is None else outside.rates(kind) for kind in self._default_rates}
        self._first_fingerprints = self.fingerprints

    @property
    def phases(self) -> Mapping[str, CompiledPhase]:
        """The phases of a step that was compiled with them, by name; each is called by itself."""
        return Phases({name: CompiledPhase(self, name) for name in super().phases})

    def run(self, kind: str, values_of: Batch, lr: LearningRates | None, check_finite: bool) -> Any:
        """As `Step.run`."""
        if self._outside is not None:
            self._follow(self._outside, kind)
        return super().run(kind, values_of, lr, check_finite)

    def _follow(self, outside: Outside, kind: str) -> None:
        outside.step()
        rates = outside.rates(kind)
        if rates is not None and rates != self._followed[kind]:
            self._default_rates[kind] = rates_of(rates, self.signature_of(kind))
            self._followed[kind] = rates

    def update(self, model: nn.Module) -> None:
        """Copies the trained parameters and the buffers into a PyTorch model, such as the one that was compiled.

        The step trains its own copy of them: `model` itself stays as it was until then. Works on every mesh (all ranks
        call it), and for a model on any device, of any floating-point type. Frozen parameters are copied into another
        model than the one that was compiled, which has them. Raises StateError, the model unchanged, where it lacks one
        of the tensors, or has it in another shape.
        """
        state = self._state_for(model)
        own = {
            **dict(model.named_parameters(remove_duplicate=False)),
            **dict(model.named_buffers(remove_duplicate=False)),
        }
        beside = {name: tensor for name, tensor in state.get("other", {}).items() if name in own}
        given = {**state["model"], **beside}
        if wrong := [name for name, tensor in given.items() if name not in own or own[name].shape != tensor.shape]:
            name = wrong[0]
            fact = f"lacks '{name}'" if name not in own else f"has '{name}' of shape {list(own[name].shape)}"
            more = f", and {len(wrong) - 1} more do not fit" if len(wrong) > 1 else ""
            hint = "pass the model that was compiled, or one made in the same way; of a wrapped one, what is inside"
            raise StateError("the model", f"{fact}, the step of shape {list(given[name].shape)}{more}", hint)
        if empty := next((name for name in given if own[name].is_meta), None):
            fact = f"has '{empty}' on the device 'meta', where tensors have no numbers"
            hint = 'give it memory first, model.to_empty(device="cpu"), or write files: step.save_weights("folder")'
            raise StateError("the model", fact, hint)
        with torch.no_grad():
            for name, tensor in given.items():
                own[name].copy_(tensor)

    def _state_for(self, model: nn.Module) -> StateDict:
        """What `model` gets: all, or all but the frozen parameters, which no step changes."""
        self._state.check()
        if self._outside is None or not self._outside.is_of(model) or self.fingerprints != self._first_fingerprints:
            return self.state_dict()
        specs = self.signature.state
        changed = [index for index, spec in enumerate(specs) if spec.role != "frozen"]
        state = states.build([specs[index] for index in changed], self._state.wholes(changed))
        self._outside.give()
        return _with_tensors(state, _to_tensor)

    def initialise(self, make: Callable[[], nn.Module], seed: int = 0) -> None:
        """Gives parameters and buffers the numbers with which `make()` makes the model, to train it from scratch.

        make: as `lambda: LlamaForCausalLM(config)`, on the CPU. What it does is recorded without memory, and then done
        for one tensor after the other, of which each rank keeps its part. Random numbers depend on `seed` and the name
        of the tensor alone: the bits are the same on every mesh. They are not those of `make()` in eager, where all
        tensors draw in turn. The rest of the state stays as it is; all ranks call it.

        Raises DmcError, the state unchanged, for a parameter that gets no numbers; StateError for another model.
        """
        self._fingerprints |= initialise(self._state, make, seed)

    def state_dict(self) -> StateDict:
        """A copy of the state: {"model": tensors by name, "optimizer": by "<parameter>.<slot>", "step", "seed"}.

        `step.update(model)` puts the trained parameters into a PyTorch model. The keys of "model" are those of
        `model.state_dict()`. What these leave out is in "other"; see `dmc.runtime.state.dictionaries.StateDict`.
        """
        state = super().state_dict()
        if self._outside is not None:
            self._outside.give()
        return _with_tensors(state, _to_tensor)

    def torch_optimizer_state(self, optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
        """The state for `optimizer.load_state_dict`, with which eager training of `model` goes on as the step would.

        optimizer: one that keeps the same state as the step's, for parameters of `model`; its groups and settings stay
        as they are, and so does what it keeps of parameters that the step does not train, frozen or unused: nothing,
        where it is new. Of a step with several optimizers, ask for the state of each. Raises StateError where it is of
        another kind, or has parameters that the step does not have.
        """
        roles = {spec.name: spec.role for spec in self.signature.state if spec.role in _OF_MODELS}
        named = dict(model.named_parameters())
        names = {id(tensor): name for name, tensor in named.items()}
        held = [names.get(id(tensor), "") for group in optimizer.param_groups for tensor in group["params"]]
        if foreign := [name for name in held if name not in roles]:
            fact = f"has the parameter '{foreign[0]}', which the step does not have" if foreign[0] else _FOREIGN
            raise StateError("the optimizer", fact, hint="create it for the parameters of the model as it was compiled")
        trained = {name: tensor for name, tensor in named.items() if roles.get(name) == "parameter"}
        others = [tensor for name, tensor in named.items() if name not in trained]
        state, own, plan = self.state_dict(), optimizer.state_dict(), optim.plan(optimizer, trained, others)
        counted = {name: self._steps_of(name, state) for name in trained}
        given = {i: (name, trained[name], counted[name]) for i, name in enumerate(held) if name in trained}
        slots = {i: _slots_of(plan, state, *each) for i, each in given.items()}
        wanted = {i: each for i, each in slots.items() if counted[held[i]] or plan.of(held[i]).begins_with_state}
        kept = {i: each for i, each in own["state"].items() if i not in slots}
        return {**own, "state": kept | (wanted if any(wanted.values()) else {})}

    def _steps_of(self, parameter: str, state: StateDict) -> int:
        """The updates of a parameter: its own count, or that of the phase that trains it."""
        if (own := state["optimizer"].get(f"{parameter}.{optim.OWN_COUNT}")) is not None:
            return int(own)
        done = state["step"]
        programs = [self._artifact, *self._artifact.programs.values()]
        signatures = [each.signature for each in programs if each.signature.controls]
        phases = [each.phase for each in signatures for spec in each.state if spec.name == parameter and spec.mutated]
        return done if isinstance(done, int) else done[phases[0]] if phases else 0

    def scheduler(self, make: Callable[..., Scheduler], **options: Any) -> Scheduler:
        """A PyTorch scheduler of this step's learning rates: `make(optimizer, **options)`.

        make: a class such as `torch.optim.lr_scheduler.CosineAnnealingLR`, or a function such as those of
        `transformers`. Pass it as `lr` to each step, then call its `step()` as usual:

            scheduler = step.scheduler(CosineAnnealingLR, T_max=100)
            loss = step(inputs, targets, lr=scheduler)
            scheduler.step()

        Of a step with phases, each has its own: `step.phases["critic"].scheduler(…)`. Raises DmcError for one that
        cycles momentum, too.
        """
        return scheduler_of(self.signature_of(self._only()).learning_rates, make, options)


class CompiledPhase(StepPhase):
    """A phase of a compiled step; see `dmc.runtime.step_phase.StepPhase`."""

    def __init__(self, step: CompiledStep, name: str) -> None:
        """name: as given to `dmc.compile(phases=…)`."""
        super().__init__(step, name)
        self._signature = step.signature_of(name)

    def scheduler(self, make: Callable[..., Scheduler], **options: Any) -> Scheduler:
        """A PyTorch scheduler of this phase's learning rates; see `CompiledStep.scheduler`."""
        return scheduler_of(self._signature.learning_rates, make, options)


def scheduler_of(rates: tuple[float, ...], make: Callable[..., Scheduler], options: Mapping[str, Any]) -> Scheduler:
    """A scheduler of these learning rates; see `CompiledStep.scheduler`."""
    option = inspect.signature(make).parameters.get("cycle_momentum")
    if option is not None and options.get("cycle_momentum", option.default):
        fact = "also cycles momentum, which is a constant of a compiled step"
        raise DmcError(f"scheduler {make.__name__}", fact, hint="pass cycle_momentum=False")
    held = _Rates(rates)
    try:
        scheduler = make(held, **options)
    except (ValueError, KeyError) as error:
        if "momentum" not in str(error):
            raise
        fact = f"also cycles momentum, which is a constant of a compiled step ({error})"
        name = getattr(make, "__name__", type(make).__name__)
        raise DmcError(f"scheduler {name}", fact, hint="create it with cycle_momentum=False") from error
    # What PyTorch warns of otherwise: here the compiled step takes the optimizer's.
    held.step()
    return scheduler


class _Rates(torch.optim.Optimizer):
    """Learning rates by group, for a scheduler. It has no other settings, such as a momentum that could be cycled."""

    def __init__(self, rates: tuple[float, ...]) -> None:
        groups = [{"params": [torch.zeros(())], "lr": rate, "initial_lr": rate} for rate in rates]
        super().__init__(groups, {})

    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """There is nothing to update."""


# The roles of a model's parameters. One that is frozen, and that `forward` changes, is a buffer of the step.
_OF_MODELS = ("parameter", "frozen", "buffer")
_FOREIGN = "has a parameter that does not belong to the model"


def _slots_of(plan: optim.Plan, state: StateDict, name: str, parameter: torch.Tensor, done: int) -> dict[str, Any]:
    """The state of a parameter, updated so often, as `torch.optim` has it."""
    kind, given = plan.of(name), state["optimizer"]
    wanted = {slot.name for slot in kind.slots(tuple(parameter.shape))}
    own = {full.rpartition(".")[2]: value for full, value in given.items() if full.rpartition(".")[0] == name}
    own.pop(optim.OWN_COUNT, None)
    if own.keys() != wanted:
        keeps = [", ".join(sorted(each)) or "nothing" for each in (wanted, own.keys())]
        fact = f"is {type(kind).__name__}, which keeps {keeps[0]} of '{name}', but the step keeps {keeps[1]}"
        raise StateError("the optimizer", fact, hint="use one of the step's kind, with the same options")
    return {**own, "step": torch.tensor(float(done))} if kind.is_counted else own


class TorchState(SavedState):
    """A saved state whose dictionary holds torch tensors; see `dmc.runtime.SavedState`."""

    def state_dict(self) -> StateDict:
        """A copy of the state, as `CompiledStep.state_dict` gives it."""
        return _with_tensors(super().state_dict(), lambda array: _to_tensor(_writable(array)))


def _with_tensors(state: StateDict, to_tensor: Callable[[Any], torch.Tensor]) -> StateDict:
    for part in (state["model"], state["optimizer"], state.get("other", {})):
        part.update({name: to_tensor(array) for name, array in part.items()})
    return state


def _writable(array: np.ndarray) -> np.ndarray:
    # Memory of zeros is taken when it is written.
    return np.zeros(array.shape, array.dtype) if are_zeros(array) else array.copy()


def _to_tensor(array: Any) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)
