"""The state that all programs of a step share: each takes the whole of it, and changes what it trains and writes.

What a program does not train is left as it is, as PyTorch skips a parameter whose gradient is None. A parameter that
not all programs of a phase train, or several phases do, counts its own steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dmc.errors import DmcError, ImportFailure
from dmc.importer.traced import Traced, dtype_name
from dmc.importer.update import Update, first_value
from dmc.program.signature import Role, StateSpec, counter_of

# The role of a tensor is the first of these that it has in any program.
_ROLES: tuple[Role, ...] = ("parameter", "buffer", "frozen")


@dataclass(frozen=True)
class Shared:
    """specs: by program, the whole state; they differ in what is `mutated`. state: the first value of each tensor, and
    unset: the names of those without numbers."""

    specs: Mapping[str, tuple[StateSpec, ...]]
    state: dict[str, Tensor]
    unset: frozenset[str]

    @staticmethod
    def of(traced: Mapping[str, Traced], updates: Mapping[str, Update]) -> Shared:
        """The state of programs by name. Raises ImportFailure where one has a tensor in another form."""
        own = {name: _specs(each, updates[name]) for name, each in traced.items()}
        union = _union(own, traced)
        specs = {
            name: tuple(
                replace(spec, mutated=spec.name in of_program and of_program[spec.name].mutated) for spec in union
            )
            for name, of_program in own.items()
        }
        state: dict[str, Tensor] = {}
        for name, each in traced.items():
            state = _first_state(own[name], each, updates[name]) | state
        unset = frozenset[str]().union(*(each.captured.unset for each in traced.values()))
        return Shared(specs, state, unset)


def fitted(traced: Mapping[str, Traced]) -> dict[str, Traced]:
    """Programs by name whose constants have names of their own, and whose parameters count as the state does. Raises
    DmcError where two optimizers train one parameter."""
    apart: dict[str, Traced] = {}
    known: dict[str, Tensor] = {}
    for name, each in traced.items():
        apart[name] = each.renamed(dict(_other_constants(each, name, known)))
        known |= apart[name].captured.state
    trainers: dict[str, dict[str, int]] = {}
    for name, each in apart.items():
        for parameter in each.gradients.trained:
            trainers.setdefault(parameter, {})[name] = each.holder(parameter)
    for parameter, programs in trainers.items():
        _check_one_optimizer(parameter, programs, apart)
    return {name: _counting(each, apart, trainers) for name, each in apart.items()}


def _other_constants(traced: Traced, program: str, known: Mapping[str, Tensor]) -> Iterator[tuple[str, str]]:
    """Constants of a program that are called as something else is in one before it, with new names."""
    for name, tensor in traced.captured.state.items():
        if traced.captured.kinds[name] == "constant" and name in known and not _is_same(tensor, known[name]):
            yield name, f"{name}.{program}"


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one is other or (one.dtype == other.dtype and one.shape == other.shape and bool(one.equal(other)))


def _check_one_optimizer(parameter: str, programs: Mapping[str, int], traced: Mapping[str, Traced]) -> None:
    phases = {holder: traced[name].asked.phase for name, holder in programs.items()}
    if len(phases) > 1:
        fact = f"is trained by the phases {' and '.join(phases.values())}, which have different optimizers"
        hint = (
            "give each optimizer parameters of its own (an optimizer of torch.optim for some of them, or "
            "dmc.Phase(…, parameters='critic.*')), or pass the very same optimizer to both phases"
        )
        raise DmcError(f"parameter '{parameter}'", fact, hint)


def _counting(own: Traced, traced: Mapping[str, Traced], trainers: Mapping[str, Mapping[str, int]]) -> Traced:
    """A program that knows which of its parameters count their own steps, and with what its counter begins."""
    alike = {name for name, each in traced.items() if each.asked.phase == own.asked.phase}
    apart = frozenset(name for name in own.gradients.trained if {*trainers[name]} != alike)
    done = max(traced[name].plan.steps_done(traced[name].gradients.trained) for name in alike)
    return replace(own, plan=replace(own.plan, apart=apart), done=done)


def _specs(traced: Traced, update: Update) -> dict[str, StateSpec]:
    """The state of one program by itself, by name."""
    captured, trained, written = traced.captured, set(traced.gradients.trained), set(traced.gradients.written)
    specs: dict[str, StateSpec] = {}
    for name, tensor in captured.state.items():
        role: Role = "parameter" if name in trained else "frozen"
        if captured.kinds[name] != "parameter" or (name in written and name not in trained):
            role = (
                "buffer"  # A frozen parameter that the forward pass changes, such as a teacher's, is simply a buffer.
            )
        kind = dtype_name(name, traced.converted(name).dtype)
        mutated = name in trained or name in written
        aliases = captured.aliases[name]
        transient = tuple(each for each in (name, *aliases) if each not in captured.saved)
        specs[name] = StateSpec(name, kind, tuple(tensor.shape), role, mutated, aliases, transient)
    owners = [specs[slot.rpartition(".")[0]] for slot in update.slots]
    slots = [
        StateSpec(name, slot.dtype or owner.dtype, slot.shape, "optimizer")
        for (name, slot), owner in zip(update.slots.items(), owners, strict=True)
    ]
    counter = StateSpec(counter_of(traced.asked.phase), "i64", (), "counter")
    seed = StateSpec("seed", "i64", (), "seed", mutated=False)
    found = [*specs.values(), *slots, counter, seed]
    check_names([(spec.role, spec.name) for spec in found])
    return {spec.name: spec for spec in found}


def check_names(named: Iterable[tuple[str, str]]) -> None:
    """Raises ImportFailure where two tensors, each with what it is and its name, have the same name."""
    kinds: dict[str, str] = {}
    for kind, name in named:
        if name in kinds:
            raise ImportFailure(
                name, f"names two tensors of the step, {kinds[name]} and {kind}", hint="rename one of the two"
            )
        kinds[name] = kind


def _union(own: Mapping[str, Mapping[str, StateSpec]], traced: Mapping[str, Traced]) -> list[StateSpec]:
    """All tensors, those of the model first, then those of optimizers, counters, and the seed."""
    found: dict[str, StateSpec] = {}
    first: dict[str, str] = {}
    for program, specs in own.items():
        for name, spec in specs.items():
            before = found.setdefault(name, spec)
            _check_alike(name, (before, spec), *(traced[each] for each in (first.setdefault(name, program), program)))
            role = min(before.role, spec.role, key=_order)
            found[name] = replace(before, role=role)
    return sorted(found.values(), key=lambda spec: _KINDS.index(_section(spec.role)))


def _order(role: Role) -> int:
    return _ROLES.index(role) if role in _ROLES else 0


_KINDS = ("model", "optimizer", "counter", "seed")


def _section(role: Role) -> str:
    return "model" if role in _ROLES else role


def _check_alike(name: str, specs: tuple[StateSpec, StateSpec], one: Traced, other: Traced) -> None:
    """Raises ImportFailure where two programs have a tensor of one name that is not the same one."""
    before, spec = (replace(each, role="parameter", mutated=False) for each in specs)
    tensors = [each.captured.memory[name] for each in (one, other) if name in each.captured.memory]
    if before == spec and (len(tensors) < 2 or _is_same(*tensors)):
        return
    fact = f"has other state than {one.asked.place}: {name}"
    if one.asked.phase != other.asked.phase:
        hint = "two modules that are losses have tensors of one name: make them modules of the model"
    else:
        hint = "register what depends on shapes as buffers of one size, or pad the batches"
    raise ImportFailure(other.asked.place, fact, hint)


def _first_state(specs: Mapping[str, StateSpec], traced: Traced, update: Update) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for spec in specs.values():
        match spec.role:
            case "counter":
                assert traced.done is not None, "decided with the programs beside"
                state[spec.name] = torch.tensor(traced.done)
            case "seed":
                state[spec.name] = torch.tensor(traced.asked.seed)
            case "optimizer":
                owner = state[spec.name.rpartition(".")[0]]
                first = first_value(update.slots[spec.name], owner)
                taken = traced.plan.state.get(spec.name)
                state[spec.name] = first if taken is None else taken.detach().to(first.dtype)
            case _:
                state[spec.name] = traced.captured.state[spec.name].detach()
    return state
