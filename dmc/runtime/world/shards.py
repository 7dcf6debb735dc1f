"""One rank's shard of a checkpoint: a safetensors file."""

from __future__ import annotations

import errno
import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from dmc.errors import StateError
from dmc.program.limits import DECODE_ERRORS, Count, Name, Shape
from dmc.runtime.dtypes import dtype_of
from dmc.runtime.regular_file import open_regular

_RESTORE = "resume from another checkpoint"
# The limit of safetensors itself.
_MAX_HEADER = 100_000_000


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


class _Entry(msgspec.Struct, frozen=True):
    """A tensor of a safetensors file. data_offsets: its bytes behind the header, from where to where."""

    dtype: Name
    shape: Shape
    data_offsets: tuple[Count, Count]


class Shard:
    """A file whose tensors are mapped into memory on demand."""

    def __init__(self, path: Path, sha256: str) -> None:
        """Raises StateError if the file is missing, no regular file, damaged, or its checksum does not match."""
        self._path = path
        with open_regular(path, StateError, _RESTORE, _RESTORE) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            self._end = file.seek(0, os.SEEK_END)
            file.seek(0)
            size = int.from_bytes(file.read(8), "little")
            header = file.read(min(size, _MAX_HEADER))
        if digest != sha256:
            raise StateError(str(path), "is damaged (its checksum does not match)", hint=_RESTORE)
        try:
            self._header = msgspec.json.decode(header, type=dict[Name, _Entry])
        except DECODE_ERRORS as error:
            raise StateError(str(path), f"has no header of safetensors ({error})", hint=_RESTORE) from error
        self._data = 8 + size

    def tensor(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """A tensor by its name in the file, read from disk on access. Raises StateError."""
        entry, type_ = self._header.get(name), dtype_of(dtype)
        if entry is None or (entry.dtype, entry.shape) != (type_.safetensors, shape):
            raise StateError(str(self._path), f"contains no {name!r} of that type and shape", hint=_RESTORE)
        first, end = entry.data_offsets
        size = math.prod(shape) * type_.numpy.itemsize
        if end - first != size or self._data + end > self._end:
            raise StateError(str(self._path), f"has no {size:,} bytes at [{first}, {end}) for {name!r}", hint=_RESTORE)
        if first == end:
            return np.empty(shape, type_.numpy)
        return np.memmap(self._path, np.uint8, "r", self._data + first, (size,)).view(type_.numpy).reshape(shape)
