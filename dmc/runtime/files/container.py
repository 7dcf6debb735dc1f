"""The `.dmc` container: one zip of stored members with a checksum each; the same members give the same bytes."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from dmc.errors import ArtifactError
from dmc.program.limits import MAX_MANIFEST, Digest
from dmc.runtime.files.atomic import replacing
from dmc.runtime.files.regular_file import open_regular
from dmc.runtime.files.zip_members import Member, check_name, content, members_of
from dmc.runtime.process.side_by_side import side_by_side

SCHEMA = 6
MANIFEST = "manifest.json"
RESTORE = "copy the original file again, or compile the step again"
_THREADS = 8

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

# The earliest time a zip can represent: a file's bytes must not depend on when it was written.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class _Schema(msgspec.Struct, frozen=True):
    schema: int


class _Checksums(msgspec.Struct, frozen=True):
    sha256: dict[str, Digest]


class Writer:
    """A container that is being written, member by member: of their bytes it keeps none."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, threads: ThreadPoolExecutor) -> None:
        self._path, self._archive, self._threads = path, archive, threads
        self._checksums: dict[str, str] = {}

    def add(self, name: str, data: bytes | memoryview) -> None:
        """Writes a member. Raises OSError, and ArtifactError for a name that no reader would take."""
        try:
            check_name(name)
        except zipfile.BadZipFile as error:
            hint = "give the module another name"
            raise ArtifactError(str(self._path), f"cannot be written: {error}", hint) from error
        checksum = _begun(self._threads, data)
        self._archive.writestr(_entry(name), data)
        self._checksums[name] = checksum()

    def end(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest (JSON values; `schema` and the checksums are added).

        Raises OSError, and ArtifactError for one that no reader would take.
        """
        head = json.dumps({"schema": SCHEMA, **manifest, "sha256": self._checksums}, indent=1).encode()
        if len(head) > MAX_MANIFEST:
            fact = f"cannot be written: {MANIFEST} would have {len(head):,} bytes; at most {MAX_MANIFEST:,} are read"
            raise ArtifactError(str(self._path), fact, hint="compile it for fewer shapes of batches")
        self._archive.writestr(_entry(MANIFEST), head)


@contextmanager
def writing(path: Path) -> Generator[Writer]:
    """What writes a container, which replaces `path` atomically when the block ends."""
    with (
        replacing(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
        ThreadPoolExecutor(1) as threads,
    ):
        yield Writer(path, archive, threads)


def read_container(
    path: Path, wanted: Callable[[str], bool] = lambda _: True
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest, and the other members whose names are `wanted`, after schema and checksums have been verified.

    Raises ArtifactError for a file that is missing, no regular
    file, not a `.dmc` file, of another schema, or damaged; OSError if it may not be read.
    """
    hint = "write one with `dmc compile` or `step.save`"
    with open_regular(path, ArtifactError, hint, "pass a .dmc file") as file:
        try:
            directory = members_of(file)
            manifest = _manifest(path, file, directory)
            checksums = _checksums(path, manifest)
            if different := sorted(set(checksums) ^ set(directory)):
                names = ", ".join(different[:8]) + (" …" if different[8:] else "")
                raise ArtifactError(str(path), f"members and manifest disagree about {names}", hint=RESTORE)
            taken = [member for name, member in directory.items() if wanted(name)]
            contents = _in_threads(lambda member: content(file, member), taken)
        except zipfile.BadZipFile as error:
            raise ArtifactError(str(path), f"is damaged or not a .dmc file ({error})", hint=RESTORE) from error
    for member, checksum in zip(taken, _in_threads(_checksum, contents), strict=True):
        if checksum != checksums[member.name]:
            raise ArtifactError(str(path), f"checksum of {member.name} does not match", hint=RESTORE)
    return manifest, {member.name: data for member, data in zip(taken, contents, strict=True)}


def _in_threads(function: Callable[[_Given], _Made], given: Sequence[_Given]) -> list[_Made]:
    """`function` of each: reading and hashing keep a processor busy, and hold no lock of Python's."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return side_by_side(threads, function, given)


def _begun(threads: ThreadPoolExecutor, data: bytes | memoryview) -> Callable[[], str]:
    """What waits for a checksum, which is computed meanwhile."""
    try:
        return threads.submit(_checksum, data).result
    except RuntimeError:  # Once the main thread has ended, Python gives threads no more work.
        return partial(_checksum, data)


def _checksum(data: bytes | memoryview) -> str:
    return hashlib.sha256(data).hexdigest()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    return entry


def _manifest(path: Path, file: IO[bytes], directory: dict[str, Member]) -> dict[str, Any]:
    """The manifest, which is taken out of the directory."""
    if MANIFEST not in directory:
        raise ArtifactError(str(path), f"has no {MANIFEST}: not a .dmc file", hint="pass a file written by dmc")
    member = directory.pop(MANIFEST)
    if member.size > MAX_MANIFEST:
        fact = f"{MANIFEST} has {member.size:,} bytes; at most {MAX_MANIFEST:,} are read"
        raise ArtifactError(str(path), fact, hint=RESTORE)
    data = content(file, member)
    if zlib.crc32(data) != member.checksum:
        raise ArtifactError(str(path), f"checksum of {MANIFEST} does not match", hint=RESTORE)
    try:
        manifest = json.loads(data)
        head = msgspec.convert(manifest, _Schema)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(str(path), f"{MANIFEST}: {error}", hint=RESTORE) from error
    if head.schema != SCHEMA:
        way_out = "install a newer dmc" if head.schema > SCHEMA else "compile the step again"
        raise ArtifactError(str(path), f"has schema {head.schema}; this dmc reads schema {SCHEMA}", hint=way_out)
    return manifest


def _checksums(path: Path, manifest: dict[str, Any]) -> dict[str, str]:
    try:
        return msgspec.convert(manifest, _Checksums).sha256
    except msgspec.ValidationError as error:
        raise ArtifactError(str(path), f"{MANIFEST}: {error}", hint=RESTORE) from error
