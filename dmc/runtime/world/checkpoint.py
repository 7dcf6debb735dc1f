"""Sharded checkpoints: each rank writes its part, asynchronously; commits are atomic over all ranks.

`step-00000100/` contains one shard per rank and `manifest.json`, which locates the parts of each tensor. The directory
has a temporary name until everything is on disk. Of several replicas, one rank writes. The manifest describes the
layout of tensors on the mesh of the job that wrote them, so that jobs on any mesh can read them.
"""

from __future__ import annotations

import errno
import math
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from dmc.errors import DmcError, StateError
from dmc.program.limits import (
    DECODE_ERRORS,
    MAX_MANIFEST,
    MAX_RANKS,
    Axis,
    AxisSize,
    Count,
    Digest,
    ElementType,
    Name,
    Shape,
)
from dmc.runtime.atomic import sync_directory
from dmc.runtime.consistency import misfit_of_split
from dmc.runtime.ranks import Spread
from dmc.runtime.regular_file import open_regular
from dmc.runtime.signature import Role, Signature, Splits, StateSpec
from dmc.runtime.stored_state import state_key
from dmc.runtime.world.shards import Shard, write_shard
from dmc.runtime.world.store import WRITING_S, Store

SCHEMA = 1
MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8})")


class _Tensor(msgspec.Struct, frozen=True):
    """The layout of a tensor: its global shape, how it is split, and the shard of each distinct part.

    role, aliases, transient: as of `dmc.runtime.signature.StateSpec`.
    """

    dtype: ElementType
    shape: Shape
    splits: Splits
    shards: tuple[Count, ...]
    role: Role = "parameter"
    aliases: tuple[Name, ...] = ()
    transient: tuple[Name, ...] = ()


class _Manifest(msgspec.Struct, frozen=True):
    """mesh: of the job that wrote it, axis to size. shards: SHA-256 of each, in rank order."""

    schema: int
    step: Count
    mesh: dict[Axis, AxisSize]
    shards: tuple[Digest, ...]
    tensors: dict[Name, _Tensor]


class CheckpointWriter:
    """Writes the checkpoints of a job to a directory shared by its ranks, all of which make the same calls."""

    def __init__(self, directory: Path, store: Store, signature: Signature, keep: int = 2) -> None:
        """keep: how many checkpoints to keep. Incomplete ones, of earlier jobs, are removed."""
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
                shutil.rmtree(self._directory / f".{_name(step)}", ignore_errors=True)
            hint = f"free disk space, then resume from {latest(self._directory) or 'the start'}"
            raise DmcError(f"the checkpoint of step {step}", "; ".join(failed), hint)
        return [text for _, text in every]

    def _commit(self, step: int, place: Path, digests: Sequence[str]) -> str:
        """Writes the manifest and renames the directory, once all shards are on disk."""
        for rank in range(self._store.world.size):
            # Raises OSError if hosts do not share the directory.
            (place / _shard(rank)).stat()
        specs, shards = self._signature.state, self._shards()
        tensors = {
            state_key(spec): _layout(spec, self._signature.splits_of(spec), each)
            for spec, each in zip(specs, shards, strict=True)
        }
        manifest = _encoded(_Manifest(SCHEMA, step, self._mesh, tuple(digests), tensors))
        with (place / MANIFEST).open("wb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(place)
        target = self._directory / _name(step)
        if target.exists():
            shutil.rmtree(target)
        place.rename(target)
        sync_directory(self._directory)
        # Of later steps are those of another training: what was just written stays.
        until = [path for path in _complete(self._directory) if path.name <= target.name]
        for old in until[: -self._keep]:
            shutil.rmtree(old)
        return ""

    def _shards(self) -> list[tuple[int, ...]]:
        """For each tensor of the state the ranks that write it, one for each distinct part."""
        spreads = [Spread(spec.shape, self._signature.splits_of(spec), self._mesh) for spec in self._signature.state]
        # Replicas take turns.
        return [tuple(ranks[index % len(ranks)] for ranks in spread.replicas) for index, spread in enumerate(spreads)]


def latest(directory: Path) -> Path | None:
    """The last complete checkpoint in a directory, if there is one."""
    found = _complete(directory)
    return found[-1] if found else None


def read_checkpoint(path: Path, specs: Sequence[StateSpec]) -> tuple[int, Iterator[np.ndarray]]:
    """The number of steps done, and the global tensors of `specs`, read one by one.

    Raises StateError if the checkpoint is damaged, or belongs to another model or optimizer.
    """
    manifest = _read(path)
    own = {state_key(spec): (spec.dtype, spec.shape) for spec in specs}
    written = {name: (tensor.dtype, tensor.shape) for name, tensor in manifest.tensors.items()}
    if different := sorted(name for name in {**own, **written} if own.get(name) != written.get(name)):
        fact = f"belongs to another model or optimizer: {', '.join(different[:8])}{' …' if different[8:] else ''}"
        raise StateError(str(path), fact, hint="compile the step with that model and optimizer")
    return manifest.step, _tensors(path, manifest, [state_key(spec) for spec in specs])


def read_all(path: Path) -> tuple[tuple[StateSpec, ...], Iterator[np.ndarray]]:
    """What a checkpoint of whatever step holds, with its global tensors, read one by one. Raises StateError."""
    manifest = _read(path)
    specs = tuple(
        StateSpec(
            name.partition(".")[2],
            each.dtype,
            each.shape,
            role=each.role,
            aliases=each.aliases,
            transient=each.transient,
        )
        for name, each in manifest.tensors.items()
    )
    if wrong := [name for spec, name in zip(specs, manifest.tensors, strict=True) if state_key(spec) != name]:
        raise StateError(str(path / MANIFEST), f"calls a tensor {wrong[0]!r}, which is not its role", hint=_OTHER)
    return specs, _tensors(path, manifest, [*manifest.tensors])


_OTHER = "pass a directory step-…"


def _read(path: Path) -> _Manifest:
    """The manifest, whose parts fit each other."""
    place = path / MANIFEST
    if not place.exists():
        raise StateError(str(path), "is not a checkpoint", hint=_OTHER)
    with open_regular(place, StateError, _OTHER, _OTHER) as file:
        data = file.read(MAX_MANIFEST + 1)
    try:
        if len(data) > MAX_MANIFEST:
            raise StateError(str(place), f"has more than {MAX_MANIFEST:,} bytes", hint=_OTHER)
        manifest = msgspec.json.decode(data, type=_Manifest)
    except DECODE_ERRORS as error:
        raise StateError(str(place), f"is not a checkpoint's ({error})", hint=_OTHER) from error
    if manifest.schema != SCHEMA:
        fact = f"has schema {manifest.schema}; this dmc reads {SCHEMA}"
        raise StateError(str(path), fact, hint="use another version of dmc")
    if fact := _misfit(manifest):
        raise StateError(str(place), fact, hint="resume from another checkpoint")
    return manifest


def _misfit(manifest: _Manifest) -> str:
    """How the manifest contradicts itself; "" where it does not."""
    ranks = math.prod(manifest.mesh.values())
    if ranks > MAX_RANKS:
        return f"has {ranks:,} ranks; at most {MAX_RANKS:,} are read"
    for name, tensor in manifest.tensors.items():
        if fact := misfit_of_split(tensor.shape, tensor.dtype, tensor.splits, manifest.mesh):
            return f"{name!r} {fact}"
        parts = math.prod(manifest.mesh[axis] for uses in tensor.splits for axis, _ in uses)
        if len(tensor.shards) != parts or any(shard >= len(manifest.shards) for shard in tensor.shards):
            return f"{name!r} has {parts} parts in shards {tensor.shards} of {len(manifest.shards)}"
    return ""


def _tensors(path: Path, manifest: _Manifest, names: Sequence[str]) -> Iterator[np.ndarray]:
    shards = [Shard(path / _shard(rank), digest) for rank, digest in enumerate(manifest.shards)]
    return (_whole_tensor(name, manifest, shards) for name in names)


def _whole_tensor(name: str, manifest: _Manifest, shards: Sequence[Shard]) -> np.ndarray:
    tensor = manifest.tensors[name]
    spread = Spread(tensor.shape, tensor.splits, manifest.mesh)
    shard_of = {ranks[0]: shard for ranks, shard in zip(spread.replicas, tensor.shards, strict=True)}
    return spread.whole(lambda rank: shards[shard_of[rank]].tensor(name, tensor.dtype, spread.part_shape))


def _layout(spec: StateSpec, splits: Splits, shards: tuple[int, ...]) -> _Tensor:
    return _Tensor(spec.dtype, spec.shape, splits, shards, spec.role, spec.aliases, spec.transient)


def _encoded(manifest: _Manifest) -> bytes:
    """As JSON. Raises OSError for one that no reader would take."""
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    if len(data) > MAX_MANIFEST:
        raise OSError(errno.EFBIG, f"would have {len(data):,} bytes; at most {MAX_MANIFEST:,} are read", MANIFEST)
    return data


def _written(place: Path, name: str, tensors: Mapping[str, np.ndarray]) -> str:
    place.mkdir(exist_ok=True)
    return write_shard(place / name, tensors)


def _complete(directory: Path) -> list[Path]:
    return sorted(path for path in directory.glob("step-*") if _NAME.fullmatch(path.name))


def _name(step: int) -> str:
    return f"step-{step:08}"


def _shard(rank: int) -> str:
    return f"rank-{rank:05}.safetensors"
