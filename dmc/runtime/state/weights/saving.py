"""The weights of a step as files that `from_pretrained` of `transformers` reads: shards of safetensors and an index."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dmc.dtypes import byte_count, dtype_of, is_floating
from dmc.errors import InputError
from dmc.program.signature import StateSpec, TensorSpec
from dmc.program.sizes import size_of
from dmc.runtime.files.atomic import replacing, sync_directory
from dmc.runtime.files.stored_state import is_weight
from dmc.runtime.state.held_state import HeldState
from dmc.runtime.tensors.arrays import bytes_of

_ONE, _SHARD, _INDEX = "model.safetensors", "model-{:05}-of-{:05}.safetensors", "model.safetensors.index.json"
# What earlier weights consist of.
_STALE = (_ONE, "model-?????-of-?????.safetensors")

Shard = list[TensorSpec]


def save(state: HeldState, folder: Path, dtype: str | None, shard_size: str) -> None:
    """Writes all weights, on rank 0, tensor by tensor; all ranks take part. Raises OSError on all ranks where it fails,
    StateError where a tensor has no numbers, InputError for what is no floating type or size."""
    if dtype is not None and not (is_floating(dtype) and dtype_of(dtype)):
        raise InputError("dtype", f"is {dtype!r}, which is no floating type", hint="pass f32, bf16 or f16")
    state.check()
    indices = [index for index, spec in enumerate(state.specs) if is_weight(spec)]
    shards = _shards([_stored(state.specs[index], dtype) for index in indices], size_of(shard_size, "shard_size"))
    state.stream_to(lambda arrays: _write(folder, shards, arrays), indices)


def _stored(spec: StateSpec, dtype: str | None) -> TensorSpec:
    """A tensor in a file. Of a tied one, under its first name: `from_pretrained` ties the others."""
    name = next(each for each in (spec.name, *spec.aliases) if each not in spec.transient)
    return TensorSpec(name, dtype if dtype is not None and is_floating(spec.dtype) else spec.dtype, spec.shape)


def _shards(tensors: Sequence[TensorSpec], most: int) -> list[Shard]:
    """Tensors in order, as many as fit into a file, and at least one."""
    shards: list[Shard] = [[]]
    room = most
    for spec in tensors:
        size = byte_count(spec)
        if shards[-1] and size > room:
            shards.append([])
            room = most
        shards[-1].append(spec)
        room -= size
    return shards


def _write(folder: Path, shards: Sequence[Shard], arrays: Iterator[np.ndarray]) -> None:
    """Writes all files under other names; when they are complete, they take the place of earlier ones. In between
    there is no index, and without one nobody reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    count = len(shards)
    names = [_ONE] if count == 1 else [_SHARD.format(number + 1, count) for number in range(count)]
    temporary = [folder / f".{name}.tmp" for name in names]
    try:
        for path, shard in zip(temporary, shards, strict=True):
            _write_file(path, shard, arrays)
        (folder / _INDEX).unlink(missing_ok=True)
        for old in [path for pattern in _STALE for path in folder.glob(pattern)]:
            old.unlink()
        for path, name in zip(temporary, names, strict=True):
            path.rename(folder / name)
    finally:
        for path in temporary:
            path.unlink(missing_ok=True)
    sync_directory(folder)
    if count > 1:
        _write_index(folder / _INDEX, dict(zip(names, shards, strict=True)))


def _write_file(path: Path, shard: Shard, arrays: Iterator[np.ndarray]) -> None:
    entries: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for spec in shard:
        first, end = end, end + byte_count(spec)
        kind = dtype_of(spec.dtype).safetensors
        entries[spec.name] = {"dtype": kind, "shape": list(spec.shape), "data_offsets": [first, end]}
    header = json.dumps(entries).encode()
    # The tensors begin at a multiple of eight bytes.
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for spec, array in zip(shard, arrays, strict=False):
            with np.errstate(over="ignore"):
                file.write(bytes_of(array.astype(dtype_of(spec.dtype).numpy, copy=False)).data)
        file.flush()
        os.fsync(file.fileno())


def _write_index(path: Path, shards: dict[str, Shard]) -> None:
    total = sum(byte_count(spec) for shard in shards.values() for spec in shard)
    places = {spec.name: name for name, shard in shards.items() for spec in shard}
    with replacing(path) as file:
        file.write(json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=2).encode())
