"""State dictionaries: the state of a step by the user's names."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np

from dmc.errors import StateError
from dmc.program.signature import StateSpec, counter_of
from dmc.runtime.tensors.arrays import to_array


class StateDict(TypedDict):
    """The whole state of a step, on the host, as numpy arrays (as torch tensors from `dmc.compiled_step.CompiledStep`).

    model: parameters and buffers by module path, with exactly the keys of the model's own `state_dict()`; tied tensors
    under each of their names. optimizer: `<parameter path>.<slot>`. step: steps done, or a dictionary of those of each
    phase. seed: of random numbers, where the step draws any. other: what the model's own `state_dict()` leaves out,
    where there is any: buffers that are not persistent, tensors of the loss.
    """

    model: dict[str, Any]
    optimizer: dict[str, Any]
    step: int | dict[str, int]
    seed: NotRequired[int]
    other: NotRequired[dict[str, Any]]


_SECTION = {
    "parameter": "model",
    "frozen": "model",
    "buffer": "model",
    "optimizer": "optimizer",
    "counter": "step",
    "seed": "seed",
}


def build(specs: Sequence[StateSpec], arrays: Sequence[np.ndarray]) -> StateDict:
    """The state dictionary of `arrays`, one per spec; arrays are shared, not copied."""
    state: dict[str, Any] = {"model": {}, "optimizer": {}}
    for spec, array in zip(specs, arrays, strict=True):
        if phase := _phase_of(spec):
            state.setdefault("step", {})[phase] = int(array)
            continue
        if spec.role in _NUMBERS:
            state[_SECTION[spec.role]] = int(array)
            continue
        for section, name in _places(spec):
            state.setdefault(section, {})[name] = array
    return state  # pyright: ignore[reportReturnType]


def flatten(specs: Sequence[StateSpec], state: Mapping[str, Any]) -> list[np.ndarray | None]:
    """One array per spec, out of a state dictionary of numpy arrays or torch tensors; nothing is cast.

    None for what keeps its value: all but the model, where `state` is `{"model": …}` alone, the contents of "other",
    where that is absent, and frozen tensors that are. A tied tensor may appear under any of its names, or under several
    if they agree.
    Raises StateError listing every name that is missing, unexpected, or has another shape or element type.
    """
    _check_sections(specs, state)
    facts = list(_name_facts(specs, state))
    arrays: list[np.ndarray | None] = []
    for spec in specs:
        try:
            arrays.append(_find(spec, state))
        except StateError as error:
            facts.append(f"{error.place}: {error.fact}")
    if facts:
        raise StateError("state dictionary", "does not match\n  " + "\n  ".join(facts), hint=_HINT)
    return arrays


_HINT = "start from step.state_dict(), which has every name, and replace values"
_NUMBERS = ("counter", "seed")


def _phase_of(spec: StateSpec) -> str:
    """The phase that a counter is of; "" for that of a step without phases, and for anything else."""
    return spec.name.removeprefix(counter_of("")).lstrip(".") if spec.role == "counter" else ""


def _places(spec: StateSpec) -> list[tuple[str, str]]:
    """(section, name) of every place of a tensor in a state dictionary."""
    section = _SECTION[spec.role]
    return [("other" if name in spec.transient else section, name) for name in (spec.name, *spec.aliases)]


def _check_sections(specs: Sequence[StateSpec], state: Mapping[str, Any]) -> None:
    required = {"model", "optimizer", *(_SECTION[spec.role] for spec in specs)}
    known = required | {section for spec in specs for section, _ in _places(spec)}
    given = set(state)
    if not given & known and any(name in {spec.name for spec in specs} for name in given):
        fact, hint = "is that of a model, its tensors by name", 'load_state_dict({"model": model.state_dict()})'
        raise StateError("state dictionary", fact, f"{hint}; the optimizer's state keeps its values then")
    if "model" not in given or (given & required != {"model"} and not required <= given):
        missing = ", ".join(map(repr, sorted(required - given)))
        raise StateError("state dictionary", f"lacks the section {missing}", hint=_HINT)
    if unexpected := sorted(given - known):
        raise StateError("state dictionary", f"has unexpected {', '.join(map(repr, unexpected))}", hint=_HINT)
    for section in given & {"model", "optimizer", "other"}:
        if not isinstance(state[section], Mapping):
            raise StateError(f"section {section!r}", f"expected a dict, got {type(state[section]).__name__}", _HINT)


def _name_facts(specs: Sequence[StateSpec], state: Mapping[str, Any]) -> Iterator[str]:
    tensors = [_places(spec) for spec in specs if spec.role not in _NUMBERS]
    needed = [_places(spec) for spec in specs if spec.role not in (*_NUMBERS, "frozen")]
    for section in (name for name in ("model", "optimizer", "other") if name in state):
        known = {name for places in tensors for where, name in places if where == section}
        given = state[section]
        for places in needed:
            first = next((name for where, name in places if where == section), None)
            if first is not None and not any(name in state.get(where, ()) for where, name in places):
                yield f"{section}: missing {first!r}{nearest(first, set(given) - known)}"
        for name in sorted(set(given) - known):
            yield f"{section}: unexpected {name!r}{nearest(name, known)}"


def nearest(name: str, candidates: set[str]) -> str:
    """A name among these that is like one that was expected, for a message; "" where none is."""
    close = difflib.get_close_matches(name, sorted(candidates), n=1)
    return f" (nearest: {close[0]!r})" if close else ""


def _find(spec: StateSpec, state: Mapping[str, Any]) -> np.ndarray | None:
    """The array of one spec; None where its section is absent, or its name, which `_name_facts` reports."""
    section = _SECTION[spec.role]
    if spec.role in _NUMBERS:
        if section not in state:
            return None
        given, phase = state[section], _phase_of(spec)
        if phase:
            if not isinstance(given, Mapping) or phase not in given:
                raise StateError(section, f"expected the steps of each phase by its name, got {given!r}")
            given = given[phase]
        number = to_array(given, spec, section, StateError)
        if section == "step" and number < 0:
            raise StateError(section, f"expected a count, got {number}")
        return number
    given = [(where, name) for where, name in _places(spec) if name in state.get(where, ())]
    arrays = [to_array(state[where][name], spec, f"{where}: {name!r}", StateError) for where, name in given]
    for (where, name), array in zip(given[1:], arrays[1:], strict=True):
        # Compared as bytes: a NaN equals itself here.
        if array is not arrays[0] and array.tobytes() != arrays[0].tobytes():
            fact = f"differs from {given[0][1]!r}, but both are the same tensor"
            raise StateError(f"{where}: {name!r}", fact, hint="give both names the same values")
    return arrays[0] if arrays else None
