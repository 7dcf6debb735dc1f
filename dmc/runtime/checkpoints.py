"""Checkpoints of a training, written beside the steps, from which it goes on, on any mesh."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from dmc.runtime import state as states
from dmc.runtime.step import Step
from dmc.runtime.world.checkpoint import CheckpointWriter, latest, read_checkpoint
from dmc.runtime.world.store import alone


class Checkpoints:
    """The checkpoints of a step in a directory, which all its ranks see; all ranks make the same calls.

    `for i in range(checkpoints.resume(), 1000):` takes the steps that are left, and `if i % 100 == 99:
    checkpoints.save()` in it keeps what they made; `checkpoints.wait()` at the end returns when it is kept.
    """

    def __init__(self, step: Step, directory: str | os.PathLike[str], keep: int = 2) -> None:
        """keep: how many of the last remain. Raises OSError where the directory cannot be made."""
        self._step, self._directory = step, Path(directory)
        signature, peers = step.signature, step.peers
        if peers is None:
            # One process has the whole state, whatever its mesh.
            signature = dataclasses.replace(signature, mesh=None, splits={})
        self._writer = CheckpointWriter(self._directory, alone() if peers is None else peers.store, signature, keep)

    def resume(self) -> int:
        """Loads the last whole checkpoint, if there is one; how many steps the state has done then.

        Raises StateError where it is damaged, or of another model or optimizer.
        """
        last, specs = latest(self._directory), self._step.signature.state
        if last is not None:
            _, arrays = read_checkpoint(last, specs)
            self._step.load_state_dict(states.build(specs, list(arrays)))
        return self._step.steps_done

    def save(self) -> None:
        """Begins to write the state behind the steps so far; waits for these, and for the checkpoint before.

        Raises DmcError where that could not be written, by any rank.
        """
        self._writer.save(self._step.steps_done, self._step.own_state())

    def wait(self) -> None:
        """Returns when all is written. Raises as `save`."""
        self._writer.wait()
