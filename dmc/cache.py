"""What code generators made, kept on disk between processes.

A result is a file, named by the digest of all that determines it: input, options, versions and, where code is for this
machine, its processor. Results are what IREE and Triton return, and the Triton sources that dmc writes; what dmc proves
of them, it proves each time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from dmc.errors import DmcError

CACHE, CACHE_MIB = "DMC_CACHE", "DMC_CACHE_MIB"
OFF = "off"
_DEFAULT_MIB = 4096
_DIGEST_BYTES = hashlib.sha256().digest_size
_UNFINISHED = ".unfinished-"
# The directory may be one that the user keeps other files in.
_OWN = re.compile(rf"[0-9a-f]{{64}}|{re.escape(_UNFINISHED)}\w+")
# A file that has been unfinished for so long belongs to a process that was killed.
_STALE_S = 3600.0


@dataclass(frozen=True)
class Entry:
    """A file of a cache. used: when it was written or last read, in seconds since the epoch."""

    path: Path
    bytes: int
    used: float


@dataclass(frozen=True)
class Cache:
    """Files in a directory, at most `most_bytes` in all after each `trim`; those not used for longest go first.

    Processes may share it: a file appears whole, and a damaged one counts as missing.
    """

    directory: Path
    most_bytes: int = _DEFAULT_MIB << 20

    @staticmethod
    def of(environ: Mapping[str, str]) -> Cache | None:
        """The cache in DMC_CACHE, a directory; None for "off". By default it is where XDG puts caches, if there is a
        home directory.

        DMC_CACHE_MIB: the most it may hold. Raises DmcError for what is no size.
        """
        place = environ.get(CACHE) or _default(environ)
        size = environ.get(CACHE_MIB, str(_DEFAULT_MIB))
        if not size.isdecimal():
            hint = f"set it to a number of MiB, such as {_DEFAULT_MIB}, or unset it; {CACHE}={OFF} keeps nothing"
            raise DmcError(f"the variable {CACHE_MIB}", f"is {size!r}", hint)
        return None if place == OFF else Cache(Path(place).absolute(), int(size) << 20)

    def get(self, key: str) -> bytes | None:
        """The result of that key, which is thereby used; None if there is none."""
        path = self.directory / key
        try:
            content = path.read_bytes()
            os.utime(path)
        except FileNotFoundError:
            return None
        data = content[_DIGEST_BYTES:]
        if content[:_DIGEST_BYTES] == _seal(key, data):
            return data
        path.unlink(missing_ok=True)
        return None

    def put(self, key: str, data: bytes) -> None:
        """Keeps the result of that key. Raises OSError."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=self.directory)
        try:
            with open(descriptor, "wb") as file:
                file.write(_seal(key, data) + data)
            os.replace(name, self.directory / key)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def trim(self) -> None:
        """Removes what exceeds the cache's size, and what killed processes left."""
        entries = sorted(self.entries(), key=lambda each: each.used)
        excess = sum(each.bytes for each in entries) - self.most_bytes
        for each in entries:
            is_stale = each.path.name.startswith(_UNFINISHED) and time.time() - each.used > _STALE_S
            if excess > 0 or is_stale:
                each.path.unlink(missing_ok=True)
                excess -= each.bytes

    def entries(self) -> Iterator[Entry]:
        """Its files."""
        if not self.directory.is_dir():
            return
        for path in filter(lambda each: _OWN.fullmatch(each.name), self.directory.iterdir()):
            try:
                status = path.stat()
            except FileNotFoundError:
                # Another process has just removed it.
                continue
            yield Entry(path, status.st_size, status.st_mtime)

    def clear(self) -> None:
        """Removes all of its files."""
        for each in self.entries():
            each.path.unlink(missing_ok=True)


@dataclass
class _Use:
    """A cache inside a block of `using`."""

    cache: Cache
    has_grown: bool = False


_current: ContextVar[_Use | None] = ContextVar("cache", default=None)


@contextmanager
def using(cache: Cache | None) -> Generator[None]:
    """Results are kept in `cache` inside the block; it is trimmed when the block ends, if it has grown."""
    use = None if cache is None else _Use(cache)
    token = _current.set(use)
    try:
        yield
    finally:
        _current.reset(token)
        if use is not None and use.has_grown:
            _tried(use.cache, use.cache.trim)


def cached(parts: Sequence[str | bytes], make: Callable[[], bytes]) -> bytes:
    """Returns the cached result for `parts`; on a miss, calls `make` and stores its result."""
    found = find(parts)
    if found is None:
        found = make()
        keep(parts, found)
    return found


def find(parts: Sequence[str | bytes]) -> bytes | None:
    """The result that `parts` determine, in the current cache; None if it is not there."""
    use = _current.get()
    return None if use is None else _tried(use.cache, lambda: use.cache.get(_key(parts)))


def keep(parts: Sequence[str | bytes], data: bytes) -> None:
    """Keeps the result that `parts` determine, in the current cache."""
    use = _current.get()
    if use is not None:
        use.has_grown = True
        _tried(use.cache, lambda: use.cache.put(_key(parts), data))


def _tried(cache: Cache, act: Callable[[], bytes | None]) -> bytes | None:
    """A cache that cannot be read or written is reported, and no reason to fail."""
    try:
        return act()
    except OSError as error:
        fact = f"the cache {cache.directory} cannot be used ({error.strerror})"
        logging.getLogger("dmc").warning("%s; set %s to another directory, or to %s", fact, CACHE, OFF)
        return None


def _key(parts: Sequence[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _seal(key: str, data: bytes) -> bytes:
    """The digest of a file: of its content under its own name."""
    return hashlib.sha256(key.encode() + data).digest()


def _default(environ: Mapping[str, str]) -> str:
    # XDG ignores a relative path.
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    base = given if given.is_absolute() else Path(os.path.expanduser("~/.cache"))
    return str(base / "dmc") if base.is_absolute() else OFF
