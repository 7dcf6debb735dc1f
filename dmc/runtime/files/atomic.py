"""Atomic file replacement: at any moment, and after any crash, readers find the old file or the new one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replacing(path: Path) -> Generator[IO[bytes]]:
    """A new binary file that replaces `path` when the block ends without an exception.

    The bytes go to `.<name>.tmp` in the same directory and reach the disk before the rename, and the rename reaches the
    disk before this returns. A process killed meanwhile leaves `path` unchanged; the next writer reuses its temporary
    file. Writers of one path wait for each other. Raises OSError.
    """
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.tmp")
    with _locked(temporary) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)


@contextmanager
def _locked(temporary: Path) -> Generator[IO[bytes]]:
    while True:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with open(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # While we waited, the previous writer may have renamed this very file to its final name.
            if not _is_same_file(descriptor, temporary):
                continue
            file.truncate()
            yield file
            return


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def sync_directory(directory: Path) -> None:
    """What was renamed or made in a directory reaches the disk before this returns. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
