"""Checkpoints of a training job, written asynchronously, to resume from on any mesh."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from dmc.runtime.state import dictionaries as states
from dmc.runtime.step import Step
from dmc.runtime.world.checkpoint import CheckpointWriter, latest, read_checkpoint
from dmc.runtime.world.store import alone


class Checkpoints:
    """The checkpoints of a step in a directory shared by its ranks, all of which make the same calls.

    `for i in range(checkpoints.resume(), 1000):` runs the remaining steps; `checkpoints.save()` in its body starts to
    write a checkpoint, and `checkpoints.wait()` behind it waits for the last one.
    """

    def __init__(self, step: Step, directory: str | os.PathLike[str], keep: int = 2, *, frozen: bool = False) -> None:
        """keep: how many checkpoints to keep. frozen: whether to write what no step changes, the weights that are not
        trained, too: else a checkpoint is resumed by a step that has them. Raises OSError if the directory cannot be
        created.
        """
        self._step, self._directory = step, Path(directory)
        signature, peers = step.signature, step.peers
        self._written = [i for i, spec in enumerate(signature.state) if frozen or spec.role != "frozen"]
        written = tuple(signature.state[index] for index in self._written)
        left_out = {} if frozen else step.fingerprints
        # A single process has the global state, whatever the mesh.
        if peers is None:
            signature = dataclasses.replace(signature, mesh=None, splits={}, paddings={}, holders={})
        signature = dataclasses.replace(signature, state=written)
        self._store = alone() if peers is None else peers.store
        self._writer = CheckpointWriter(self._directory, self._store, signature, keep, left_out)

    def resume(self) -> int:
        """Loads the last complete checkpoint, if there is one; returns the number of steps done.

        Raises StateError if it is damaged, or belongs to another model or optimizer, or to other frozen weights.
        """
        found, specs = latest(self._directory), self._step.signature.state
        # A network file system may show hosts different directories: all ranks load what rank 0 has found.
        last = self._store.exchange("resume", b"" if found is None else found.name.encode())[0].decode()
        if last:
            _, arrays = read_checkpoint(self._directory / last, specs, self._step.fingerprints)
            read = [(spec, array) for spec, array in zip(specs, arrays, strict=True) if array is not None]
            self._step.load_state_dict(states.build(*zip(*read, strict=True)))
        return self._step.steps_done

    def save(self) -> None:
        """Starts to write the current state; waits only for the steps in flight and the previous checkpoint.

        Raises DmcError if the previous checkpoint could not be written on any rank.
        """
        self._writer.save(self._step.steps_done, self._step.own_state(self._written))

    def wait(self) -> None:
        """Waits for the checkpoint being written. Raises DmcError if it could not be written."""
        self._writer.wait()
