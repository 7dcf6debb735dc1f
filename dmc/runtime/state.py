"""State dictionaries: the state of a step by the user's names."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import numpy as np

from dmc.errors import StateError
from dmc.runtime.arrays import to_array
from dmc.runtime.signature import StateSpec


class StateDict(TypedDict):
    """The whole state of a step, on the host, as numpy arrays (as torch tensors from `dmc.api.CompiledStep`).

    model: parameters, frozen parameters and buffers by module path, tied tensors under each of their names.
    optimizer: `<parameter path>.<slot>`. step: steps done. seed: of dropout, where the step has any.
    """

    model: dict[str, Any]
    optimizer: dict[str, Any]
    step: int
    seed: NotRequired[int]


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
        section = _SECTION[spec.role]
        if section in ("step", "seed"):
            state[section] = int(array)
        else:
            state[section].update(dict.fromkeys((spec.name, *spec.aliases), array))
    return state  # pyright: ignore[reportReturnType]


def flatten(specs: Sequence[StateSpec], state: Mapping[str, Any]) -> list[np.ndarray]:
    """One array per spec, out of a state dictionary of numpy arrays or torch tensors; nothing is cast.

    A tied tensor may appear under any of its names, or under several if they agree. Raises StateError listing every
    name that is missing, unexpected, or has another shape or element type.
    """
    _check_sections(specs, state)
    facts = list(_name_facts(specs, state))
    arrays: list[np.ndarray] = []
    for spec in specs:
        try:
            arrays.extend(_find(spec, state))
        except StateError as error:
            facts.append(f"{error.place}: {error.fact}")
    if facts:
        raise StateError("state dictionary", "does not match\n  " + "\n  ".join(facts), hint=_HINT)
    return arrays


_HINT = "start from step.state_dict(), which has every name, and replace values"


def _check_sections(specs: Sequence[StateSpec], state: Mapping[str, Any]) -> None:
    expected = {"model", "optimizer", *(_SECTION[spec.role] for spec in specs)}
    if missing := sorted(expected - set(state)):
        raise StateError("state dictionary", f"lacks the section {', '.join(map(repr, missing))}", hint=_HINT)
    if unexpected := sorted(set(state) - expected):
        raise StateError("state dictionary", f"has unexpected {', '.join(map(repr, unexpected))}", hint=_HINT)
    for section in ("model", "optimizer"):
        if not isinstance(state[section], Mapping):
            raise StateError(f"section {section!r}", f"expected a dict, got {type(state[section]).__name__}", _HINT)


def _name_facts(specs: Sequence[StateSpec], state: Mapping[str, Any]) -> Iterator[str]:
    for section in ("model", "optimizer"):
        inside = [spec for spec in specs if _SECTION[spec.role] == section]
        known = {name for spec in inside for name in (spec.name, *spec.aliases)}
        given = state[section]
        for spec in inside:
            if not any(name in given for name in (spec.name, *spec.aliases)):
                yield f"{section}: missing {spec.name!r}{_nearest(spec.name, set(given) - known)}"
        for name in sorted(set(given) - known):
            yield f"{section}: unexpected {name!r}{_nearest(name, known)}"


def _nearest(name: str, candidates: set[str]) -> str:
    close = difflib.get_close_matches(name, sorted(candidates), n=1)
    return f" (nearest: {close[0]!r})" if close else ""


def _find(spec: StateSpec, state: Mapping[str, Any]) -> list[np.ndarray]:
    """The array of one spec; None where its name is missing, which `_name_facts` reports."""
    section = _SECTION[spec.role]
    if section in ("step", "seed"):
        number = to_array(state[section], spec, section, StateError)
        if section == "step" and number < 0:
            raise StateError(section, f"expected a count, got {number}")
        return [number]
    names = [name for name in (spec.name, *spec.aliases) if name in state[section]]
    arrays = [to_array(state[section][name], spec, f"{section}: {name!r}", StateError) for name in names]
    for name, array in zip(names[1:], arrays[1:], strict=True):
        # Compared as bytes: a NaN equals itself here.
        if array is not arrays[0] and array.tobytes() != arrays[0].tobytes():
            fact = f"differs from {names[0]!r}, but both are the same tensor"
            raise StateError(f"{section}: {name!r}", fact, hint="give both names the same values")
    return arrays[:1]
