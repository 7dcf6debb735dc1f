"""SIGTERM, by which launchers end ranks, as an event that a thread can wait for."""

from __future__ import annotations

import os
import select
import signal
import threading
from typing import Any

from dmc.runtime.process.undisturbed import undisturbed


class Terminations:
    """Handles SIGTERM, if nobody else does and it is created by the main thread, as Python requires.

    Python's own handlers wait for the main thread, which may hang in C; the wakeup pipe is written to in any case.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        is_free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        self._is_taken = is_free and threading.current_thread() is threading.main_thread()
        if self._is_taken:
            signal.signal(signal.SIGTERM, _to_pipe)
            self._previous = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def wait(self, timeout_s: float) -> bool:
        """Waits for SIGTERM; whether it has come, and no other handler has been installed since."""
        readable, _, _ = select.select([self._read], [], [], timeout_s)
        came = bool(readable) and signal.SIGTERM in os.read(self._read, 64)
        return came and undisturbed.handler_of(signal.SIGTERM) is _to_pipe

    def close(self) -> None:
        """Restores the default."""
        if self._is_taken and threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._previous)
            if signal.getsignal(signal.SIGTERM) is _to_pipe:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._is_taken = False
        os.close(self._read)
        os.close(self._write)


def _to_pipe(signum: int, frame: Any) -> None:
    """Does nothing: the signal is read from the pipe."""
