"""The `.dmc` container: one zip of stored members with a checksum each; the same members give the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, TypeVar

from dmc.errors import ArtifactError
from dmc.runtime.atomic import replacing
from dmc.runtime.side_by_side import side_by_side

SCHEMA = 5
MANIFEST = "manifest.json"

_LOCAL_SIGNATURE = b"PK\3\4"
_LOCAL_HEADER = struct.Struct("<4s22xHH")

# At most so many bytes are read at once; Linux reads no more than 2 GiB.
_AT_ONCE = 1 << 30
_THREADS = 8

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

# The earliest time a zip can represent: a file's bytes must not depend on when it was written.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_container(path: Path, manifest: Mapping[str, Any], members: Mapping[str, bytes | memoryview]) -> None:
    """Writes `manifest` (JSON values; `schema` and the checksums are added) and `members`, replacing `path` atomically.
    Raises OSError.
    """
    names = sorted(members)
    checksums = dict(zip(names, _in_threads(lambda name: _checksum(members[name]), names), strict=True))
    head = {"schema": SCHEMA, **manifest, "sha256": checksums}
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(MANIFEST), json.dumps(head, indent=1).encode())
        for name in names:
            archive.writestr(_entry(name), members[name])


def read_container(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and every other member, after schema and checksums have been verified.

    Raises ArtifactError for a file that is missing, not a `.dmc` file, of another schema, or damaged; OSError if it
    may not be read.
    """
    with _opened(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = _members(path, archive, file)
        except _UNREADABLE as error:
            raise ArtifactError(str(path), f"is damaged or not a .dmc file ({error})", hint=_RESTORE) from error
    manifest = _manifest(path, members)
    _verify(path, manifest, members)
    return manifest, members


_RESTORE = "copy the original file again, or compile the step again"

# Raised by zipfile for damaged bytes; OSError for a seek outside the file.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)


def _in_threads(function: Callable[[_Given], _Made], given: Sequence[_Given]) -> list[_Made]:
    """`function` of each: reading and hashing keep a processor busy, and hold no lock of Python's."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return side_by_side(threads, function, given)


def _checksum(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise ArtifactError(str(path), "no such file", hint="write one with `dmc compile` or `step.save`") from None
    except IsADirectoryError:
        raise ArtifactError(str(path), "is a directory", hint="pass a .dmc file") from None


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry


def _members(path: Path, archive: zipfile.ZipFile, file: IO[bytes]) -> dict[str, bytes]:
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise ArtifactError(str(path), "contains two members of one name", hint=_RESTORE)
    # The manifest has no checksum of ours.
    manifest = {name: archive.read(name) for name in names if name == MANIFEST}
    others = [each for each in archive.infolist() if each.filename != MANIFEST]
    contents = _in_threads(lambda entry: _content(file.fileno(), entry), others)
    return manifest | dict(zip((each.filename for each in others), contents, strict=True))


def _content(file: int, entry: zipfile.ZipInfo) -> bytes:
    """The bytes of a member as they are in the file, several times as fast as zipfile reads them; our checksums replace
    the zip's.

    They begin behind the local header, whose last two fields are the lengths of what follows it (PKWARE's APPNOTE.TXT,
    section 4.3.7). Raises zipfile.BadZipFile.
    """
    begin = entry.header_offset
    signature, name, extra = _LOCAL_HEADER.unpack(os.pread(file, _LOCAL_HEADER.size, begin))
    if signature != _LOCAL_SIGNATURE or entry.compress_type != zipfile.ZIP_STORED:
        raise zipfile.BadZipFile(f"{entry.filename} is not a stored member")
    place, end = begin + _LOCAL_HEADER.size + name + extra, begin + _LOCAL_HEADER.size + name + extra + entry.file_size
    parts: list[bytes] = []
    while place < end:
        if not (part := os.pread(file, min(_AT_ONCE, end - place), place)):
            raise zipfile.BadZipFile(f"{entry.filename} is cut off")
        parts.append(part)
        place += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _manifest(path: Path, members: dict[str, bytes]) -> dict[str, Any]:
    if MANIFEST not in members:
        raise ArtifactError(str(path), f"has no {MANIFEST}: not a .dmc file", hint="pass a file written by dmc")
    try:
        manifest = json.loads(members.pop(MANIFEST))
    except ValueError as error:
        raise ArtifactError(str(path), f"{MANIFEST} is not JSON ({error})", hint=_RESTORE) from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("schema"), int):
        raise ArtifactError(str(path), f"{MANIFEST} has no schema", hint=_RESTORE)
    if manifest["schema"] != SCHEMA:
        way_out = "install a newer dmc" if manifest["schema"] > SCHEMA else "compile the step again"
        raise ArtifactError(str(path), f"has schema {manifest['schema']}; this dmc reads schema {SCHEMA}", hint=way_out)
    return manifest


def _verify(path: Path, manifest: dict[str, Any], members: dict[str, bytes]) -> None:
    checksums = manifest.get("sha256")
    if not isinstance(checksums, dict):
        raise ArtifactError(str(path), f"{MANIFEST} has no checksums", hint=_RESTORE)
    if different := sorted(set(checksums) ^ set(members)):
        raise ArtifactError(str(path), f"members and manifest disagree about {', '.join(different)}", hint=_RESTORE)
    for name, checksum in zip(members, _in_threads(_checksum, [*members.values()]), strict=True):
        if checksum != checksums[name]:
            raise ArtifactError(str(path), f"checksum of {name} does not match", hint=_RESTORE)
