"""Checkpoints of all ranks: written beside the steps, each rank its part; whole, or not there at all.

`step-00000100/` holds a shard of each rank and `manifest.json`, which says where each tensor's parts are. It has
another name until all of it is on the disk. Of the ranks that hold the same, one writes it. Tensors are described as
they lay on the mesh of the job that wrote them, so that a job on any other mesh reads them.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from dmc.errors import DmcError, StateError
from dmc.runtime.artifact import state_key
from dmc.runtime.atomic import sync_directory
from dmc.runtime.ranks import Spread
from dmc.runtime.signature import Signature, Splits, StateSpec
from dmc.runtime.world.shards import Shard, write_shard
from dmc.runtime.world.store import Store

SCHEMA = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8})")
# For a rank that writes longer; one that is gone is noticed by others.
_TIMEOUT_S = 1800.0


class _Tensor(msgspec.Struct, frozen=True):
    """How a tensor lies: its whole shape, how it is split, and the shard of each of its different parts."""

    dtype: str
    shape: tuple[int, ...]
    splits: Splits
    shards: tuple[int, ...]


class _Manifest(msgspec.Struct, frozen=True):
    """mesh: axis to size, of the job that wrote. shards: SHA-256 of each, in the order of the ranks."""

    schema: int
    step: int
    mesh: dict[str, int]
    shards: tuple[str, ...]
    tensors: dict[str, _Tensor]


class CheckpointWriter:
    """Writes the checkpoints of a job into a directory that all its ranks see; all of them make the same calls."""

    def __init__(self, directory: Path, store: Store, signature: Signature, keep: int = 2) -> None:
        """keep: how many of the last remain. What a job that ended has left half-written is removed."""
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
        """Begins to write what this rank holds behind a step: an array for each of `signature.state`, not shared.

        Returns at once, or when the checkpoint before is written. Raises DmcError where that failed, on any rank.
        """
        self.wait()
        self._writer = threading.Thread(target=self._write, args=(step, parts), name="dmc checkpoint", daemon=True)
        self._writer.start()

    def wait(self) -> None:
        """Returns when nothing is being written any more. Raises as `save`."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None
        self.check()

    def check(self) -> None:
        """Raises DmcError where a checkpoint could not be written, on any rank."""
        if self._error is not None:
            raise self._error

    def _write(self, step: int, parts: Sequence[np.ndarray]) -> None:
        try:
            self._try_to_write(step, parts)
        except DmcError as error:
            self._error = error

    def _try_to_write(self, step: int, parts: Sequence[np.ndarray]) -> None:
        place = self._directory / f".{_name(step)}"
        rank = self._store.world.rank
        own = {
            state_key(spec): part
            for spec, part, shards in zip(self._signature.state, parts, self._shards(), strict=True)
            if rank in shards
        }
        digests = self._all(step, lambda: _written(place, _shard(rank), own))
        self._all(step, lambda: self._commit(step, place, digests) if rank == 0 else "")

    def _all(self, step: int, do: Callable[[], str]) -> list[str]:
        """What `do` gives on all ranks, when all have done it; raises DmcError where one could not."""
        try:
            told = ["done", do()]
        except OSError as error:
            told = ["failed", f"{error.filename or self._directory}: {error.strerror or error}"]
        given = self._store.exchange("checkpoint", msgspec.json.encode(told), _TIMEOUT_S)
        every: list[list[str]] = [msgspec.json.decode(each) for each in given]
        failed = [f"rank {rank} cannot write it: {text}" for rank, (how, text) in enumerate(every) if how == "failed"]
        if failed:
            if self._store.world.rank == 0:
                shutil.rmtree(self._directory / f".{_name(step)}", ignore_errors=True)
            hint = f"make room; resume from {latest(self._directory) or 'the start'}"
            raise DmcError(f"the checkpoint of step {step}", "; ".join(failed), hint)
        return [text for _, text in every]

    def _commit(self, step: int, place: Path, digests: Sequence[str]) -> str:
        """Gives the checkpoint its name, when all its parts are there."""
        specs, shards = self._signature.state, self._shards()
        tensors = {
            state_key(spec): _Tensor(spec.dtype, spec.shape, self._signature.splits_of(spec), each)
            for spec, each in zip(specs, shards, strict=True)
        }
        manifest = _Manifest(SCHEMA, step, self._mesh, tuple(digests), tensors)
        with (place / MANIFEST).open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1))
            file.flush()
            os.fsync(file.fileno())
        sync_directory(place)
        target = self._directory / _name(step)
        if target.exists():
            shutil.rmtree(target)
        place.rename(target)
        sync_directory(self._directory)
        for old in _whole(self._directory)[: -self._keep]:
            shutil.rmtree(old)
        return ""

    def _shards(self) -> list[tuple[int, ...]]:
        """For each tensor of the state the ranks that write it, one for each of its different parts."""
        spreads = [Spread(spec.shape, self._signature.splits_of(spec), self._mesh) for spec in self._signature.state]
        # Ranks that hold the same take turns.
        return [tuple(ranks[index % len(ranks)] for ranks in spread.replicas) for index, spread in enumerate(spreads)]


def latest(directory: Path) -> Path | None:
    """The last whole checkpoint in a directory, if there is one."""
    found = _whole(directory)
    return found[-1] if found else None


def read_checkpoint(path: Path, specs: Sequence[StateSpec]) -> tuple[int, Iterator[np.ndarray]]:
    """The steps done, and one after another the whole tensors that `specs` name.

    Raises StateError where the checkpoint is damaged, or of another model or optimizer.
    """
    try:
        manifest = msgspec.json.decode((path / MANIFEST).read_bytes(), type=_Manifest)
    except (OSError, msgspec.DecodeError) as error:
        raise StateError(str(path), f"is no checkpoint ({error})", hint="name a directory step-00000…") from error
    if manifest.schema != SCHEMA:
        raise StateError(str(path), f"is of schema {manifest.schema}; this dmc reads {SCHEMA}", hint="use that dmc")
    own = {state_key(spec): (spec.dtype, spec.shape) for spec in specs}
    written = {name: (tensor.dtype, tensor.shape) for name, tensor in manifest.tensors.items()}
    if different := sorted(name for name in {**own, **written} if own.get(name) != written.get(name)):
        fact = f"is of another model or optimizer: {', '.join(different[:8])}{' …' if different[8:] else ''}"
        raise StateError(str(path), fact, hint="compile the step as that one was")
    shards = [Shard(path / _shard(rank), digest) for rank, digest in enumerate(manifest.shards)]
    return manifest.step, (_whole_tensor(state_key(spec), manifest, shards) for spec in specs)


def _whole_tensor(name: str, manifest: _Manifest, shards: Sequence[Shard]) -> np.ndarray:
    tensor = manifest.tensors[name]
    spread = Spread(tensor.shape, tensor.splits, manifest.mesh)
    shard_of = {ranks[0]: shard for ranks, shard in zip(spread.replicas, tensor.shards, strict=True)}
    return spread.whole(lambda rank: shards[shard_of[rank]].tensor(name, tensor.dtype, spread.part_shape))


def _written(place: Path, name: str, tensors: Mapping[str, np.ndarray]) -> str:
    place.mkdir(exist_ok=True)
    return write_shard(place / name, tensors)


def _whole(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("step-*") if _NAME.fullmatch(path.name))


def _name(step: int) -> str:
    return f"step-{step:08}"


def _shard(rank: int) -> str:
    return f"rank-{rank:05}.safetensors"
