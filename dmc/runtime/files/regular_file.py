"""Opens files only if they are regular: a pipe, a device or a socket would make a reader wait, or never end."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

from dmc.errors import DmcError

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path, error: type[DmcError], missing: str, other: str) -> BufferedReader:
    """The file, to be read; a link is followed.

    missing, other: the hints where there is no file, and where it is something else. Raises `error` then, without
    waiting, and OSError if the file may not be read.
    """
    try:
        # A pipe without a writer would make this wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise error(str(path), "no such file", hint=missing) from None
    except ValueError as cause:
        raise error(repr(str(path)), f"is no path ({cause})", hint=missing) from None
    except OSError as cause:
        # A socket cannot be opened at all, nor a device that is not there.
        if cause.errno != errno.ENXIO:
            raise
        raise error(str(path), "is a socket or a device, not a file", hint=other) from None
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise error(str(path), f"is {_KINDS.get(kind, 'not a file')}", hint=other)
    return open(descriptor, "rb")
