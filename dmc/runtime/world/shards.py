"""One rank's shard of a checkpoint: a safetensors file."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from dmc.errors import StateError
from dmc.runtime.dtypes import dtype_of

_RESTORE = "resume from another checkpoint"


def write_shard(path: Path, tensors: Mapping[str, np.ndarray]) -> str:
    """Writes the file and flushes it to disk; returns its SHA-256. Raises OSError."""
    try:
        # `ascontiguousarray` gives a scalar a dimension.
        save_file({name: np.ascontiguousarray(each).reshape(each.shape) for name, each in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(path)) from error
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


class Shard:
    """A file whose tensors are mapped into memory on demand."""

    def __init__(self, path: Path, sha256: str) -> None:
        """Raises StateError if the file is missing or its checksum does not match."""
        self._path = path
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                file.seek(0)
                self._size = int.from_bytes(file.read(8), "little")
                header = file.read(self._size)
        except FileNotFoundError:
            raise StateError(str(path), "no such file", hint=_RESTORE) from None
        if digest != sha256:
            raise StateError(str(path), "is damaged (its checksum does not match)", hint=_RESTORE)
        self._header: dict[str, Any] = json.loads(header)

    def tensor(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """A tensor by its name in the file, read from disk on access. Raises StateError."""
        entry, type_ = self._header.get(name), dtype_of(dtype)
        if entry is None or (entry["dtype"], tuple(entry["shape"])) != (type_.safetensors, shape):
            raise StateError(str(self._path), f"contains no {name!r} of that type and shape", hint=_RESTORE)
        first, end = entry["data_offsets"]
        if first == end:
            return np.empty(shape, type_.numpy)
        offset = 8 + self._size + first
        return np.memmap(self._path, np.uint8, "r", offset, (end - first,)).view(type_.numpy).reshape(shape)
