"""One rank's shard of a checkpoint: a safetensors file."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save_file

from dmc.dtypes import dtype_of
from dmc.errors import StateError
from dmc.runtime.files.regular_file import open_regular
from dmc.runtime.files.tensor_file import TensorFile

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


class Shard(TensorFile):
    """A file whose tensors are mapped into memory on demand."""

    def __init__(self, path: Path, sha256: str) -> None:
        """Raises StateError if the file is missing, no regular file, damaged, or its checksum does not match."""
        with open_regular(path, StateError, _RESTORE, _RESTORE) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != sha256:
            raise StateError(str(path), "is damaged (its checksum does not match)", hint=_RESTORE)
        super().__init__(path, _RESTORE, _RESTORE)

    def tensor(self, name: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """A tensor by its name in the file, read from disk on access. Raises StateError."""
        entry = self.entries.get(name)
        if entry is None or (entry.dtype, entry.shape) != (dtype_of(dtype).safetensors, shape):
            raise StateError(str(self.path), f"contains no {name!r} of that type and shape", hint=_RESTORE)
        return self.array(name)
