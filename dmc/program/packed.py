"""Values as compact bytes: MessagePack, compressed. What they become when unpacked has a limit."""

from __future__ import annotations

import zlib
from typing import Any, TypeVar

import msgspec

from dmc.errors import ArtifactError
from dmc.program.limits import DECODE_ERRORS

# The largest that is unpacked: a plan of 96 layers on 64 ranks has 150 MB.
MAX_BYTES = 1 << 30
# Most plans and code shrink to a sixth; without a limit a few megabytes of a file would become gigabytes.
_RATIO = 64
_SMALL = 1 << 16
_LEVEL, _UNCOMPRESSED = 6, 0

Value = TypeVar("Value")


def packed(value: object) -> bytes:
    """The value as bytes. Equal values give equal bytes. Raises ArtifactError for one that `unpacked` would refuse."""
    raw = msgspec.msgpack.encode(value)
    if len(raw) > MAX_BYTES:
        fact = f"would have a plan or code of {len(raw):,} bytes; at most {MAX_BYTES:,} are read"
        raise ArtifactError("the file", fact, hint="compile for fewer ranks")
    data = zlib.compress(raw, _LEVEL)
    # Small programs of many ranks, which are alike, shrink further than a reader believes.
    return data if len(raw) <= _limit(data) else zlib.compress(raw, _UNCOMPRESSED)


def unpacked_size(value: object) -> int:
    """The bytes that the value has when unpacked."""
    return len(msgspec.msgpack.encode(value))


def unpacked(data: bytes, kind: type[Value], where: str, hint: str, size: int = MAX_BYTES) -> Value:
    """The inverse of `packed`; every field is checked against its type.

    size: what the value has at most when unpacked. Raises ArtifactError about `where`, before more memory is taken.
    """
    limit = min(size, MAX_BYTES, _limit(data))
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(data, limit)
        if unpacker.unconsumed_tail or not unpacker.eof or unpacker.unused_data:
            raise ArtifactError(where, _odd(unpacker, limit), hint=hint)
        return msgspec.msgpack.decode(raw, type=kind)
    except (zlib.error, *DECODE_ERRORS) as error:
        raise ArtifactError(where, f"is damaged ({error})", hint=hint) from error


def _limit(data: bytes) -> int:
    """The most bytes that `data` may have when unpacked."""
    return max(_RATIO * len(data), _SMALL)


def _odd(unpacker: Any, limit: int) -> str:
    if unpacker.unconsumed_tail:
        return f"has more than {limit:,} bytes when unpacked, the most that it may have"
    return "is damaged (it has bytes behind its end)" if unpacker.eof else "is damaged (it is cut off)"
