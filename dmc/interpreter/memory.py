"""The arenas of a rank as bytes. Uninitialised memory is noise, never zeros."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dmc.dtypes import Array, numpy_type
from dmc.errors import DmcError
from dmc.program import Range, Space

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Memory:
    """Arenas by memory space, and the source of their noise."""

    arenas: Mapping[str, Bytes]
    noise: np.random.Generator

    @staticmethod
    def of(sizes: Mapping[Space, int], noise: np.random.Generator) -> Memory:
        """The initial arenas of a rank, of these sizes."""
        return Memory({space: _random(noise, size) for space, size in sizes.items()}, noise)

    def beside(self, other: Memory) -> Memory:
        """The arenas of both."""
        return Memory({**self.arenas, **other.arenas}, self.noise)

    def view(self, range_: Range) -> Bytes:
        """The bytes themselves. Raises DmcError if they are outside the arena."""
        arena = self.arenas.get(range_.space)
        if arena is None or not 0 <= range_.offset <= range_.end <= len(arena):
            size = "no arena" if arena is None else f"an arena of {len(arena)} bytes"
            raise DmcError(_told(range_), f"is out of bounds: the rank has {size} there")
        return arena[range_.offset : range_.end]

    def read(self, range_: Range, dtype: str, shape: tuple[int, ...] = (-1,)) -> Array:
        """A copy of the bytes as a tensor. Raises DmcError if they are too few or too many."""
        try:
            return self.view(range_).copy().view(numpy_type(dtype)).reshape(shape)
        except ValueError as error:
            fact = f"{range_.length} bytes do not form a tensor of {dtype} and shape {list(shape)}"
            raise DmcError(_told(range_), fact) from error

    def write(self, range_: Range, array: Array) -> None:
        """Writes a tensor there. Raises DmcError if it has another size."""
        if array.nbytes != range_.length:
            fact = f"{array.nbytes} bytes are written to {range_.length}"
            raise DmcError(_told(range_), fact)
        self.view(range_)[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def spoil(self, ranges: Iterable[Range]) -> list[Bytes]:
        """Writes noise there, the content of a range while it is being written; returns the noise."""
        given: list[Bytes] = []
        for range_ in ranges:
            given.append(_random(self.noise, range_.length))
            self.view(range_)[:] = given[-1]
        return given


def _told(range_: Range) -> str:
    return f"{range_.space} [{range_.offset}, {range_.end})"


def _random(noise: np.random.Generator, count: int) -> Bytes:
    return np.frombuffer(noise.bytes(count), np.uint8).copy()
