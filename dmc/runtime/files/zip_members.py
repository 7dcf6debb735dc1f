"""The members of a zip as dmc writes it: stored, one behind the other, and nothing else.

A zip can say the same thing twice: its directory and the header before each member, several ends, comments, links,
members in each other's bytes. Programs differ in what they believe then, so all of that is refused. The records are
those of PKWARE's APPNOTE.TXT, section 4.3.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile

# The record at the end; the same for large files, and where that is; an entry of the directory; a member's header.
_END = struct.Struct("<4s4H2LH")
_LARGE_END = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_HEADER = struct.Struct("<4s5H3L2H")
_MARKS = {_END: b"PK\5\6", _LARGE_END: b"PK\6\6", _LOCATOR: b"PK\6\7", _ENTRY: b"PK\1\2", _HEADER: b"PK\3\4"}

# A field of 32 bits with this value is among the extra fields, in 64.
_ELSEWHERE = 0xFFFFFFFF
_LARGE = 1
# Names in UTF-8. Other flags say that a member is encrypted, patched, or of a size that is told behind it.
_UTF8 = 0x800

MAX_MEMBERS = 1 << 18
MAX_DIRECTORY = 64 << 20
# At most so many bytes are read at once; Linux reads no more than 2 GiB.
_AT_ONCE = 1 << 30


@dataclass(frozen=True)
class Member:
    """A member: its header begins at `header`, its content, `size` bytes, at `begin`. checksum: CRC-32."""

    name: str
    header: int
    begin: int
    size: int
    checksum: int


def members_of(file: IO[bytes]) -> dict[str, Member]:
    """The members by name, in the order of the directory. Raises BadZipFile."""
    begin, size, count = _directory(file)
    found: dict[str, Member] = {}
    for member in _entries(file, _read(file, begin, size)):
        if member.name in found:
            raise BadZipFile(f"it contains two members of the name {member.name}")
        found[member.name] = member
    if len(found) != count:
        raise BadZipFile(f"it says that it has {count} members, and has {len(found)}")
    place = 0
    for member in sorted(found.values(), key=lambda member: member.header):
        if member.header != place:
            raise BadZipFile(f"{member.name} is at byte {member.header}, not at {place}, behind the member before")
        place = member.begin + member.size
    if place != begin:
        raise BadZipFile(f"its members end at byte {place}, and its directory begins at {begin}")
    return found


def content(file: IO[bytes], member: Member) -> bytes:
    """The bytes of a member; several threads may read at once. Raises BadZipFile."""
    return _read(file, member.begin, member.size)


def check_name(name: str) -> None:
    """Raises BadZipFile for a name under which a program that unpacks the zip would write elsewhere, or that is not
    readable text."""
    parts = name.split("/")
    if ".." in parts or "" in parts or not name.isprintable():
        raise BadZipFile(f"{name!r} is no name of a member")


def _read(file: IO[bytes], begin: int, size: int) -> bytes:
    # A size is believed only as far as the file goes: so much memory is taken.
    if not 0 <= begin <= begin + size <= os.fstat(file.fileno()).st_size:
        raise BadZipFile(f"bytes [{begin}, {begin + size}) are not in the file")
    parts: list[bytes] = []
    place, end = begin, begin + size
    while place < end:
        if not (part := os.pread(file.fileno(), min(_AT_ONCE, end - place), place)):
            raise BadZipFile("it was cut off while it was read")
        parts.append(part)
        place += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _record(kind: struct.Struct, data: bytes, place: int = 0) -> tuple[Any, ...]:
    """The fields of a record, without its mark."""
    if place + kind.size > len(data):
        raise BadZipFile("a record is cut off")
    mark, *fields = kind.unpack_from(data, place)
    if mark != _MARKS[kind]:
        raise BadZipFile(f"{mark!r} is where {_MARKS[kind]!r} should be")
    return tuple(fields)


def _directory(file: IO[bytes]) -> tuple[int, int, int]:
    """Where the directory begins, its size, and the number of members."""
    end = os.fstat(file.fileno()).st_size - _END.size
    *numbers, comment = _record(_END, _read(file, end, _END.size))
    locator = end - _LOCATOR.size
    is_large = locator >= 0 and _read(file, locator, 4) == _MARKS[_LOCATOR]
    if is_large:
        _, end, _ = _record(_LOCATOR, _read(file, locator, _LOCATOR.size))
        _, _, _, *numbers = _record(_LARGE_END, _read(file, end, _LARGE_END.size))
    disk, first, here, count, size, begin = numbers
    is_last = not comment and (not is_large or end + _LARGE_END.size == locator)
    if disk or first or here != count or begin + size != end or not is_last:
        raise BadZipFile("the record at its end contradicts what is before it")
    if count > MAX_MEMBERS or size > MAX_DIRECTORY:
        raise BadZipFile(f"{count:,} members in a directory of {size:,} bytes are too many")
    return begin, size, count


def _entries(file: IO[bytes], directory: bytes) -> Iterator[Member]:
    place = 0
    while place < len(directory):
        _, _, flags, method, _, _, *others = _record(_ENTRY, directory, place)
        checksum, packed, size, name_size, extra_size, comment, disk, _, attributes, header = others
        place += _ENTRY.size
        raw = directory[place : place + name_size]
        extra = directory[place + name_size : place + name_size + extra_size]
        place += name_size + extra_size
        size, packed, header = _large(extra, (size, packed, header))
        name = _name(raw)
        if flags & ~_UTF8 or method != ZIP_STORED or packed != size or comment or disk:
            raise BadZipFile(f"{name} is not a stored member")
        if stat.S_IFMT(attributes >> 16) not in (0, stat.S_IFREG):
            raise BadZipFile(f"{name} is a link or another special file")
        yield Member(name, header, _begin(file, header, raw, (flags, method)), size, checksum)


def _name(raw: bytes) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError as error:
        raise BadZipFile(f"{raw!r} is no name of a member") from error
    check_name(name)
    return name


def _large(extra: bytes, numbers: Iterable[int]) -> tuple[int, ...]:
    """The numbers, of which those that do not fit into 32 bits are in the extra fields."""
    given = [*numbers]
    missing = [index for index, number in enumerate(given) if number == _ELSEWHERE]
    if extra != b"" or missing:
        kind = struct.Struct(f"<2H{len(missing)}Q")
        if not missing or len(extra) != kind.size:
            raise BadZipFile("it has extra fields other than sizes")
        tag, length, *found = kind.unpack(extra)
        if (tag, length) != (_LARGE, 8 * len(missing)):
            raise BadZipFile("it has extra fields other than sizes")
        for index, number in zip(missing, found, strict=True):
            given[index] = number
    return tuple(given)


def _begin(file: IO[bytes], header: int, name: bytes, kind: tuple[int, int]) -> int:
    """Where a member's content begins, behind the header, which must say what the directory says."""
    fields = _record(_HEADER, _read(file, header, _HEADER.size))
    name_size, extra_size = fields[-2:]
    begin = header + _HEADER.size + name_size
    if fields[1:3] != kind or name_size != len(name) or _read(file, header + _HEADER.size, name_size) != name:
        raise BadZipFile(f"the header at byte {header} and the directory contradict each other")
    return begin + extra_size
