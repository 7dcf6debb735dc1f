"""The machine code of a job's kernels, and how each is carried out with it."""

from __future__ import annotations

import hashlib
import zlib
from typing import Literal, TypeAlias

import msgspec

from dmc.errors import ArtifactError

Role = Literal["read", "write", "scratch"]
Extent = tuple[int, int, int]


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Bytes [offset, offset + length) of a launch's operand `index` ("read"), its result `index`, or its scratch."""

    role: Role
    index: int
    offset: int
    length: int


class Dispatch(msgspec.Struct, frozen=True, array_like=True, tag="dispatch"):
    """Runs `entry`: a pointer for each of `buffers`, then `scalars` as 32-bit integers.

    grid: blocks, block: threads, along x, y, z. shared: bytes of dynamic shared memory of a block.
    """

    entry: str
    grid: Extent
    block: Extent
    shared: int
    buffers: tuple[Part, ...]
    scalars: tuple[int, ...] = ()


class Fill(msgspec.Struct, frozen=True, array_like=True, tag="fill"):
    """Writes `pattern`, 1, 2 or 4 bytes (little endian), all over `target`."""

    pattern: bytes
    target: Part


class Copy(msgspec.Struct, frozen=True, array_like=True, tag="copy"):
    """Copies `source` to `target`."""

    source: Part
    target: Part


Step: TypeAlias = Dispatch | Fill | Copy


class DeviceCode(msgspec.Struct, frozen=True, array_like=True):
    """ptx: the text that holds every entry. kernels: the steps of each, in order, by the kernel's name."""

    ptx: str
    kernels: dict[str, tuple[Step, ...]]

    def to_bytes(self) -> bytes:
        """The code as a compact file. Equal code gives equal bytes."""
        return zlib.compress(msgspec.msgpack.encode(self), 6)

    @staticmethod
    def from_bytes(data: bytes, where: str = "the code") -> DeviceCode:
        """The inverse of `to_bytes`; every field is checked against its type. Raises ArtifactError."""
        try:
            return msgspec.msgpack.decode(zlib.decompress(data), type=DeviceCode)
        except (zlib.error, msgspec.DecodeError) as error:
            raise ArtifactError(where, f"is damaged ({error})", hint="compile the step again") from error

    def digest(self) -> str:
        """SHA-256 of what the code says, in hexadecimal."""
        return hashlib.sha256(msgspec.msgpack.encode(self)).hexdigest()
