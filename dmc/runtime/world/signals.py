"""SIGTERM, by which a launcher ends ranks, as something that a thread can wait for."""

from __future__ import annotations

import os
import select
import signal
import threading
from typing import Any


class Terminations:
    """Takes SIGTERM over, if nobody else has, and if the main thread makes it: no other may.

    The main thread may hang where Python cannot interrupt it; what C writes to a pipe arrives all the same.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        self._is_taken = is_free and threading.current_thread() is threading.main_thread()
        if self._is_taken:
            signal.signal(signal.SIGTERM, _leave_it)
            self._previous = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def wait(self, timeout_s: float) -> bool:
        """Waits for so long; whether SIGTERM has come, and nobody has taken it over since."""
        readable, _, _ = select.select([self._read], [], [], timeout_s)
        came = bool(readable) and signal.SIGTERM in os.read(self._read, 64)
        return came and signal.getsignal(signal.SIGTERM) is _leave_it

    def close(self) -> None:
        """Gives it back."""
        if self._is_taken and threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._previous)
            if signal.getsignal(signal.SIGTERM) is _leave_it:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._is_taken = False
        os.close(self._read)
        os.close(self._write)


def _leave_it(signum: int, frame: Any) -> None:
    """Leaves the signal to whoever waits for it."""
