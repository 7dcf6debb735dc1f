"""The state of a compiled step, as users see it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmc.errors import InputError
from dmc.runtime.state import dictionaries as states
from dmc.runtime.state.dictionaries import StateDict
from dmc.runtime.state.fingerprints import fingerprints
from dmc.runtime.state.held_state import HeldState
from dmc.runtime.state.weights.loading import load
from dmc.runtime.state.weights.saving import save
from dmc.runtime.tensors.ranks import Ranks


class StepState:
    """What a step has in the memory of its devices. Methods on the whole of it are collective: all ranks call them."""

    _state: HeldState
    _ranks: Ranks
    _fingerprints: dict[str, str]

    @property
    def steps_done(self) -> int:
        """Optimizer steps done since the state was new, of all phases together; waits for the steps in flight."""
        return self._state.steps_done()

    def steps_of(self, counter: str) -> int:
        """What the counter of this name says; waits for the steps in flight."""
        return self._state.steps_done(counter)

    def state_dict(self) -> StateDict:
        """A copy of the whole state on the host (numpy arrays); waits for the steps in flight."""
        self._state.check()
        return states.build(self._state.specs, self._state.all())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Overwrites the state with a dictionary like that of `state_dict`, of numpy arrays or torch tensors.

        `{"model": …}` alone overwrites the model's parameters and buffers; the rest keeps its values, and so does a
        frozen tensor that is left out. Raises StateError listing every name that does not match; the state is then
        unchanged.
        """
        given = states.flatten(self._state.specs, state)
        self._state.put(given)
        self._fingerprints |= fingerprints(self._state.specs, given)

    def rank_state_dict(self, rank: int) -> StateDict:
        """A copy of one rank's state, like `state_dict`; split tensors have the shape of the rank's part, and what the
        rank does not have is left out.

        Raises InputError for a rank that the step does not have.
        """
        if rank not in self._ranks.held:
            first, last = self._ranks.held[0], self._ranks.held[-1]
            raise InputError(f"rank {rank}", "is not in this process", hint=f"ranks here are {first} to {last}")
        self._state.check()
        parts = zip(self._state.specs, map(self._state.spread, range(len(self._state.specs))), strict=True)
        held = zip(parts, self._state.parts(rank), strict=True)
        own = [(spec, spread.held(part, rank)) for (spec, spread), part in held if rank in spread.holders]
        return states.build([spec for spec, _ in own], [part for _, part in own])

    def differing_replicas(self) -> tuple[str, ...]:
        """The state tensors whose replicas on two ranks are not bitwise equal; () where all agree."""
        return self._state.differing()

    def load_weights(self, path: str | os.PathLike[str], ignore: Sequence[str] = ()) -> None:
        """Reads parameters and persistent buffers from safetensors files; the rest of the state stays as it is.

        path: a file, an index, or a folder with either, as `save_pretrained` of `transformers` or `save_weights` wrote
        it. Names are those of the model, or all with one prefix more or less, as of the model inside another; floating
        types are converted to the step's; a tied tensor may have any of its names. Each rank reads only its part, one
        tensor after the other; all ranks call it. ignore: patterns of names, in the files and in the step, that are
        left out, such as "*.attn.bias".

        Raises StateError, the state unchanged, where a file is missing or damaged, and for every name, shape and type
        that does not fit. Where reading itself fails, the step does not run until weights are loaded.
        """
        wholes = load(self._state, path, ignore)
        self._fingerprints |= fingerprints(self._state.specs, map(wholes.get, range(len(self._state.specs))))

    def save_weights(self, folder: str | os.PathLike[str], dtype: str | None = None, shard_size: str = "5GB") -> None:
        """Writes parameters and persistent buffers as safetensors files that `from_pretrained` of `transformers` reads.

        dtype: "bf16" or "f16" instead of the state's. shard_size: the most bytes of a file, unless one tensor has more.
        They take the place of weights that were there once all are written; `config.json` is the model's own to write:
        `model.config.save_pretrained(folder)`. Waits for the steps in flight; all ranks call it, rank 0 writes.
        """
        save(self._state, Path(folder), dtype, shard_size)

    def own_state(self, indices: Sequence[int] | None = None) -> list[np.ndarray]:
        """Copies of this process's part of the state: whole tensors, or the parts of its one rank.

        indices: in `signature.state`; all by default.
        """
        self._state.check()
        return self._state.own(range(len(self._state.specs)) if indices is None else indices)

    @property
    def fingerprints(self) -> dict[str, str]:
        """What tells the values of frozen tensors apart, by their keys in files."""
        return dict(self._fingerprints)
