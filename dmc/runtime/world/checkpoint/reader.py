"""Reads checkpoints of any mesh as whole tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dmc.errors import StateError
from dmc.program.signature import StateSpec
from dmc.runtime.files.stored_state import state_key
from dmc.runtime.tensors.ranks import Spread
from dmc.runtime.world.checkpoint.manifest import MANIFEST, OTHER, Manifest, read_manifest, shard_of
from dmc.runtime.world.shards import Shard


def read_checkpoint(
    path: Path, specs: Sequence[StateSpec], frozen: Mapping[str, str] | None = None
) -> tuple[int, Iterator[np.ndarray | None]]:
    """The number of steps done, and the global tensors of `specs`, read one by one; None for those that it leaves out.

    frozen: fingerprints of the frozen tensors that the step has. Raises StateError if the checkpoint is damaged, or
    belongs to another model or optimizer, or to other frozen tensors.
    """
    manifest = read_manifest(path)
    _check_frozen(path, manifest, frozen or {})
    names = [state_key(spec) for spec in specs]
    specs = [spec for spec in specs if state_key(spec) not in manifest.frozen]
    own = {state_key(spec): (spec.dtype, spec.shape) for spec in specs}
    written = {name: (tensor.dtype, tensor.shape) for name, tensor in manifest.tensors.items()}
    if different := sorted(name for name in {**own, **written} if own.get(name) != written.get(name)):
        fact = f"belongs to another model or optimizer: {', '.join(different[:8])}{' …' if different[8:] else ''}"
        raise StateError(str(path), fact, hint="compile the step with that model and optimizer")
    written_ones = _tensors(path, manifest, [state_key(spec) for spec in specs])
    return manifest.step, (None if name in manifest.frozen else next(written_ones) for name in names)


def _check_frozen(path: Path, manifest: Manifest, own: Mapping[str, str]) -> None:
    """Raises StateError where the step has other values of what the checkpoint leaves out."""
    if different := sorted(name for name, each in manifest.frozen.items() if own.get(name) != each):
        names = ", ".join(name.partition(".")[2] for name in different[:8]) + (" …" if different[8:] else "")
        fact = f"continues from frozen weights that this step does not have: {names}"
        hint = "load the same weights into the model before dmc.compile, or write checkpoints with frozen=True"
        raise StateError(str(path), fact, hint)


def read_all(path: Path) -> tuple[tuple[StateSpec, ...], Iterator[np.ndarray]]:
    """What a checkpoint of whatever step holds, with its global tensors, read one by one. Raises StateError."""
    manifest = read_manifest(path)
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
        raise StateError(str(path / MANIFEST), f"calls a tensor {wrong[0]!r}, which is not its role", hint=OTHER)
    return specs, _tensors(path, manifest, [*manifest.tensors])


def _tensors(path: Path, manifest: Manifest, names: Sequence[str]) -> Iterator[np.ndarray]:
    shards = [Shard(path / shard_of(rank), digest) for rank, digest in enumerate(manifest.shards)]
    return (_whole_tensor(name, manifest, shards) for name in names)


def _whole_tensor(name: str, manifest: Manifest, shards: Sequence[Shard]) -> np.ndarray:
    tensor = manifest.tensors[name]
    spread = Spread(tensor.shape, tensor.splits, manifest.mesh, tensor.paddings)
    holder = {ranks[0]: shards[shard] for ranks, shard in zip(spread.replicas, tensor.shards, strict=True)}
    return spread.whole(lambda rank: holder[rank].tensor(name, tensor.dtype, spread.part_shape))
