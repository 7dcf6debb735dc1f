"""Writes checkpoints beside the steps that follow, and commits each once all of it is on disk."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from dmc.errors import DmcError
from dmc.program.signature import Signature
from dmc.runtime.files.atomic import sync_directory
from dmc.runtime.files.stored_state import state_key
from dmc.runtime.tensors.ranks import Spread
from dmc.runtime.world.checkpoint.manifest import (
    MANIFEST,
    SCHEMA,
    Manifest,
    complete,
    encoded,
    latest,
    layout,
    name_of,
    shard_of,
)
from dmc.runtime.world.shards import write_shard
from dmc.runtime.world.store import WRITING_S, Store


class CheckpointWriter:
    """Writes the checkpoints of a job to a directory shared by its ranks, all of which make the same calls."""

    def __init__(
        self,
        directory: Path,
        store: Store,
        signature: Signature,
        keep: int = 2,
        frozen: Mapping[str, str] | None = None,
    ) -> None:
        """signature: its state is what is written. keep: how many checkpoints to keep. frozen: fingerprints of what is
        left out. Incomplete checkpoints, of earlier jobs, are removed."""
        self._frozen = dict(frozen or {})
        self._directory, self._store, self._signature, self._keep = directory, store, signature, keep
        self._mesh = dict(signature.mesh or {})
        self._writer: threading.Thread | None = None
        self._error: DmcError | None = None
        directory.mkdir(parents=True, exist_ok=True)
        if store.world.rank == 0:
            for left in directory.glob(".step-*"):
                shutil.rmtree(left)
        store.barrier("checkpoints")

    def save(self, step: int, parts: Sequence[np.ndarray]) -> None:
        """Starts to write this rank's state after a step: an array for each of `signature.state`, owned by the callee.

        Waits for the previous checkpoint only. Raises DmcError if that failed on any rank.
        """
        self.wait()
        self._writer = threading.Thread(target=self._write, args=(step, parts), name="dmc checkpoint", daemon=True)
        self._writer.start()

    def wait(self) -> None:
        """Waits for the checkpoint being written. Raises like `save`."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        self.check()

    def check(self) -> None:
        """Raises DmcError if a checkpoint could not be written on any rank: once, and the next one is tried."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _write(self, step: int, parts: Sequence[np.ndarray]) -> None:
        try:
            self._try_to_write(step, parts)
        except DmcError as error:
            self._error = error

    def _try_to_write(self, step: int, parts: Sequence[np.ndarray]) -> None:
        place = self._directory / f".{name_of(step)}"
        rank = self._store.world.rank
        own = {
            state_key(spec): part
            for spec, part, shards in zip(self._signature.state, parts, self._shards(), strict=True)
            if rank in shards
        }
        digests = self._all(step, lambda: _written(place, shard_of(rank), own))
        self._all(step, lambda: self._commit(step, place, digests) if rank == 0 else "")

    def _all(self, step: int, do: Callable[[], str]) -> list[str]:
        """The results of `do` on all ranks; raises DmcError if it failed on any of them."""
        try:
            told = ["done", do()]
        except OSError as error:
            told = ["failed", f"{error.filename or self._directory}: {error.strerror or error}"]
        except Exception as error:
            # Whatever has failed, the other ranks wait for an answer.
            told = ["failed", f"{type(error).__name__}: {error}"]
        given = self._store.exchange("checkpoint", msgspec.json.encode(told), WRITING_S)
        every: list[list[str]] = [msgspec.json.decode(each) for each in given]
        failed = [
            f"rank {rank} could not write it: {text}" for rank, (how, text) in enumerate(every) if how == "failed"
        ]
        if failed:
            if self._store.world.rank == 0:
                shutil.rmtree(self._directory / f".{name_of(step)}", ignore_errors=True)
            hint = f"free disk space, then resume from {latest(self._directory) or 'the start'}"
            raise DmcError(f"the checkpoint of step {step}", "; ".join(failed), hint)
        return [text for _, text in every]

    def _commit(self, step: int, place: Path, digests: Sequence[str]) -> str:
        """Writes the manifest and renames the directory, once all shards are on disk."""
        for rank in range(self._store.world.size):
            # Raises OSError if hosts do not share the directory.
            (place / shard_of(rank)).stat()
        specs, shards = self._signature.state, self._shards()
        tensors = {
            state_key(spec): layout(spec, *self._signature.layout_of(spec), each)
            for spec, each in zip(specs, shards, strict=True)
        }
        manifest = encoded(Manifest(SCHEMA, step, self._mesh, tuple(digests), tensors, self._frozen))
        with (place / MANIFEST).open("wb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(place)
        target = self._directory / name_of(step)
        if target.exists():
            shutil.rmtree(target)
        place.rename(target)
        sync_directory(self._directory)
        # Of later steps are those of another training: what was just written stays.
        until = [path for path in complete(self._directory) if path.name <= target.name]
        for old in until[: -self._keep]:
            shutil.rmtree(old)
        return ""

    def _shards(self) -> list[tuple[int, ...]]:
        """For each tensor of the state the ranks that write it, one for each distinct part."""
        holders = self._signature.holders
        layouts = [(spec, *self._signature.layout_of(spec)) for spec in self._signature.state]
        spreads = [
            Spread(spec.shape, splits, self._mesh, paddings, holders=holders.get(spec.name))
            for spec, splits, paddings in layouts
        ]
        # Replicas take turns. The reader, who knows no holders, counts parts in the same order.
        return [tuple(ranks[index % len(ranks)] for ranks in spread.replicas) for index, spread in enumerate(spreads)]


def _written(place: Path, name: str, tensors: Mapping[str, np.ndarray]) -> str:
    place.mkdir(exist_ok=True)
    return write_shard(place / name, tensors)
