"""A file of safetensors, whose header is checked before a tensor is read."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from dmc.dtypes import describe, stored_dtype
from dmc.errors import StateError
from dmc.program.limits import DECODE_ERRORS, Count, Name, Shape
from dmc.runtime.files.regular_file import open_regular

# The limit of safetensors itself.
_MAX_HEADER = 100_000_000
_METADATA = "__metadata__"


class Entry(msgspec.Struct, frozen=True):
    """A tensor of a file. dtype: by safetensors' name. data_offsets: its bytes behind the header."""

    dtype: Name
    shape: Shape
    data_offsets: tuple[Count, Count]

    def __str__(self) -> str:
        known = stored_dtype(self.dtype)
        return describe(self.dtype if known is None else known.name, self.shape)


class TensorFile:
    """A file whose tensors are mapped into memory on demand. entries: by name."""

    def __init__(self, path: Path, hint: str, missing: str) -> None:
        """hint, missing: the ways out where it is damaged, and where there is none.

        Raises StateError then, and if it is no regular file; OSError if it may not be read.
        """
        self.path = path
        with open_regular(path, StateError, missing, hint) as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(0)
            size = int.from_bytes(file.read(8), "little")
            header = file.read(min(size, _MAX_HEADER))
        self._data = 8 + size
        try:
            parts = msgspec.json.decode(header, type=dict[Name, msgspec.Raw])
            self.entries: Mapping[str, Entry] = {
                name: msgspec.json.decode(raw, type=Entry) for name, raw in parts.items() if name != _METADATA
            }
        except DECODE_ERRORS as error:
            raise StateError(str(path), f"is damaged: it has no header of safetensors ({error})", hint) from error
        for fact in self._misfits(length - self._data):
            raise StateError(str(path), f"is damaged: {fact}", hint)

    def array(self, name: str) -> np.ndarray:
        """A tensor that it has, of a type that numpy has, read from disk on access."""
        entry, kind = self.entries[name], stored_dtype(self.entries[name].dtype)
        assert kind is not None, "checked by whoever asks"
        first, end = entry.data_offsets
        if first == end:
            return np.empty(entry.shape, kind.numpy)
        whole = np.memmap(self.path, np.uint8, "r", self._data + first, (end - first,))
        return whole.view(kind.numpy).reshape(entry.shape)

    def _misfits(self, length: int) -> Iterator[str]:
        """What contradicts each other in the header, or the `length` of what follows it."""
        for name, entry in self.entries.items():
            first, end = entry.data_offsets
            if end > length:
                yield f"{name!r} is said to end at byte {end:,} of {max(length, 0):,}: it was cut short"
            kind = stored_dtype(entry.dtype)
            if kind is not None and end - first != (size := math.prod(entry.shape) * kind.numpy.itemsize):
                yield f"{name!r}, {entry}, has {size:,} bytes, and {end - first:,} are said to be there"
        ranges = sorted(entry.data_offsets for entry in self.entries.values())
        if any(one[1] != other[0] for one, other in pairwise([(0, 0), *ranges, (length, length)])):
            yield "its tensors do not lie one behind the other"
