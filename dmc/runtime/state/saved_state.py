"""The state in a file or in a checkpoint, read as data: nothing in it is run, compiled or unpickled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from dmc.errors import ArtifactError, DmcError, StateError
from dmc.program.signature import StateSpec
from dmc.runtime.files.artifact import check_head, is_state, stored_state
from dmc.runtime.files.consistency import misfits_of_numbers
from dmc.runtime.files.container import MANIFEST, RESTORE, read_container
from dmc.runtime.files.manifest import Manifest
from dmc.runtime.files.stored_state import state_key
from dmc.runtime.state import dictionaries as states
from dmc.runtime.state.dictionaries import StateDict
from dmc.runtime.world.checkpoint import latest, read_all


@dataclass(frozen=True)
class SavedState:
    """The state of a step, without the step: whole tensors, whatever the mesh.

    specs: each tensor's name, element type, shape and role. arrays: the tensors, in that order, numpy arrays that are
    not writable; such of zeros may take up no memory.
    """

    specs: tuple[StateSpec, ...]
    arrays: tuple[np.ndarray, ...]

    @property
    def tensors(self) -> Mapping[str, np.ndarray]:
        """All tensors by names that are unique: `model.` or `optimizer.` and their own; `counter.step`, `seed.seed`."""
        return {state_key(spec): array for spec, array in zip(self.specs, self.arrays, strict=True)}

    @property
    def names(self) -> list[str]:
        """The names of `tensors`."""
        return [state_key(spec) for spec in self.specs]

    @property
    def steps_done(self) -> int:
        """Optimizer steps done since the state was new, of all phases together."""
        return sum(int(each) for spec, each in zip(self.specs, self.arrays, strict=True) if spec.role == "counter")

    def state_dict(self) -> StateDict:
        """The same as `Step.state_dict` gives, for `Step.load_state_dict` or a model of PyTorch."""
        return states.build(self.specs, self.arrays)


def read_state(path: str | os.PathLike[str]) -> SavedState:
    """The state in a `.dmc` file, in a checkpoint (`step-00000100`), or in the last one of a directory of those.

    Raises ArtifactError or StateError for what is damaged, or is something else; OSError if it may not be read.
    """
    place = Path(path)
    saved = _of_checkpoint(place) if place.is_dir() else _of_file(place)
    facts = [*misfits_of_numbers(saved.specs)]
    if not any(spec.role == "counter" for spec in saved.specs):
        facts.append("it does not have a count of steps")
    if facts:
        raise StateError(str(path), f"holds no state of a step: {facts[0]}", hint=RESTORE)
    return saved


def _of_checkpoint(place: Path) -> SavedState:
    specs, arrays = read_all(place if (place / MANIFEST).exists() else latest(place) or place)
    return SavedState(specs, tuple(arrays))


def _of_file(path: Path) -> SavedState:
    manifest, members = read_container(path, is_state)
    try:
        given = msgspec.convert(manifest, Manifest)
        check_head(given, "")
        if given.unset:
            fact = f"has no weights: {len(given.unset)} tensors of its state have no numbers yet"
            raise StateError("its state", fact, hint="load it, give it weights (load_weights) and save it")
        return SavedState(given.signature.state, stored_state(given, members))
    except msgspec.ValidationError as error:
        raise ArtifactError(str(path), f"{MANIFEST}: {error}", hint=RESTORE) from error
    except DmcError as error:
        raise ArtifactError(f"{path}: {error.place}", error.fact, error.hint) from error
