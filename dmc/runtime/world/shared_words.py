"""Words of 32 bits in host memory that processes of one host share.

Streams of all their GPUs write them and wait for them, and so can the host: it needs no call of the device's library,
which may be waiting for the device.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

WORD_BYTES = 4
_FOLDER = "/dev/shm"
# Between two rounds in which the words of a rank that has given up are raised.
_PAUSE_S = 1e-3


def create(count: int) -> Path:
    """A file of so many words, all 0. Raises OSError where the host has no memory for it."""
    file, path = tempfile.mkstemp(prefix="dmc-", dir=_FOLDER if os.path.isdir(_FOLDER) else None)
    with os.fdopen(file, "wb"):
        try:
            # Memory that is missing is missed now, not when a page is first written.
            os.posix_fallocate(file, 0, -(-count * WORD_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE)
        except OSError:
            Path(path).unlink()
            raise
    return Path(path)


class SharedWords:
    """The words of a file, which may be unlinked as soon as all processes have opened it."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where it cannot be mapped."""
        with path.open("r+b") as opened:
            self._memory = mmap.mmap(opened.fileno(), 0)
        self._words = np.frombuffer(self._memory, np.int32)
        self.address, self.bytes = int(self._words.ctypes.data), len(self._memory)
        self._is_open = True

    def __getitem__(self, number: int) -> int:
        return int(self._words[number])

    def __setitem__(self, number: int, value: int) -> None:
        self._words[number] = value

    def keep_raised(self, first: int, count: int) -> None:
        """Writes 1 into these words again and again, until they are closed or the process ends."""

        def raise_them() -> None:
            while self._is_open:
                self._words[first : first + count] = 1
                time.sleep(_PAUSE_S)

        threading.Thread(target=raise_them, name="dmc-raised-words", daemon=True).start()

    def close(self) -> None:
        """Nothing writes into them any more; they are unmapped with the object."""
        self._is_open = False
