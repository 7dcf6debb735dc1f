"""Weights from files into the state of a step: tensor by tensor, of each only what the ranks here hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from dmc.dtypes import dtype_of
from dmc.errors import DmcError, StateError
from dmc.runtime.state.held_state import HeldState
from dmc.runtime.state.weights.files import weight_files
from dmc.runtime.state.weights.names import Source, sources


def load(state: HeldState, path: str | os.PathLike[str], ignore: Sequence[str]) -> dict[int, np.ndarray]:
    """Overwrites a step's weights by those in files; returns those, whole, by their numbers in the signature.

    Raises StateError, on all ranks where it does on one: before anything is changed for files that do not fit. Where
    reading fails afterwards, no step runs any more.
    """
    found: list[Source] = []

    def find() -> None:
        found.extend(sources(state.specs, state.unset, weight_files(Path(path)), ignore, str(path)))

    state.together(find)
    names = frozenset(each.spec.name for each in found)
    try:
        state.together(lambda: state.write(_parts(found, state), names))
    except (OSError, DmcError):
        # On this rank it may have succeeded.
        state.unset |= names
        raise
    return {each.index: each.stored[0][1].array(each.stored[0][0]) for each in found}


def _parts(found: Sequence[Source], state: HeldState) -> Iterator[tuple[int, Callable[[int], np.ndarray]]]:
    return ((each.index, lambda rank, each=each: part_of(each, state, rank)) for each in found)


def part_of(source: Source, state: HeldState, rank: int) -> np.ndarray:
    """A rank's part of a tensor, in the type of the state. Raises StateError where its names have different numbers."""
    spread, kind = state.spread(source.index), dtype_of(source.spec.dtype).numpy
    (name, file), *others = source.stored
    part = spread.part(file.array(name), rank)
    for other, beside in others:
        again = spread.part(beside.array(other), rank)
        if again.tobytes() != part.tobytes():
            fact = f"differs from {name!r} in {file.path.name}, but in the model both are one tensor"
            raise StateError(f"{other!r} in {beside.path}", fact, hint=f"leave one out: ignore=[{other!r}]")
    with np.errstate(over="ignore"):
        return part.astype(kind, copy=False)
