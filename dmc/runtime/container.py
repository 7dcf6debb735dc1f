"""The `.dmc` container: one zip of stored members with a checksum each; the same members give the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from dmc.errors import ArtifactError
from dmc.runtime.atomic import replacing

SCHEMA = 4
MANIFEST = "manifest.json"

_LOCAL_SIGNATURE = b"PK\3\4"
_LOCAL_HEADER = struct.Struct("<4s22xHH")

# The earliest time a zip can represent: a file's bytes must not depend on when it was written.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_container(path: Path, manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    """Writes `manifest` (JSON values; `schema` and the checksums are added) and `members`, replacing `path` atomically.
    Raises OSError.
    """
    checksums = {name: hashlib.sha256(members[name]).hexdigest() for name in sorted(members)}
    head = {"schema": SCHEMA, **manifest, "sha256": checksums}
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_entry(MANIFEST), json.dumps(head, indent=1).encode())
        for name in sorted(members):
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
    return manifest | {each.filename: _content(file, each) for each in archive.infolist() if each.filename != MANIFEST}


def _content(file: IO[bytes], entry: zipfile.ZipInfo) -> bytes:
    """The bytes of a member in one read, several times as fast as zipfile's; our checksums replace the zip's.

    They begin behind the local header, whose last two fields are the lengths of what follows it (PKWARE's APPNOTE.TXT,
    section 4.3.7). Raises zipfile.BadZipFile.
    """
    file.seek(entry.header_offset)
    signature, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if signature != _LOCAL_SIGNATURE or entry.compress_type != zipfile.ZIP_STORED:
        raise zipfile.BadZipFile(f"{entry.filename} is not a stored member")
    file.seek(name + extra, os.SEEK_CUR)
    data = file.read(entry.file_size)
    if len(data) != entry.file_size:
        raise zipfile.BadZipFile(f"{entry.filename} is cut off")
    return data


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
    for name, data in members.items():
        if hashlib.sha256(data).hexdigest() != checksums[name]:
            raise ArtifactError(str(path), f"checksum of {name} does not match", hint=_RESTORE)
