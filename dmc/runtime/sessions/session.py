"""What every session has: a lock, an end, and what becomes of it in a forked process."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref

from dmc.errors import DmcError
from dmc.runtime.process.undisturbed import undisturbed

STALE = "the state is no longer reliable: load the last saved file"
_FORKED = (
    "is of the process that this one was forked from, where its threads and its device are",
    "use it there; a process that trains is started with multiprocessing's 'spawn', and loads a step of its own",
)

_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """A loaded step. Its methods may be called from several threads: they take turns.

    lock: reentrant; whoever holds it sees one state, whatever other threads do. Waiting can be interrupted by a signal;
    what changes anything is `undisturbed`, so that it happens as a whole or not at all.
    """

    def __init__(self) -> None:
        """There is nothing to close until `_open`."""
        self.lock = threading.RLock()
        self._closed = True
        # A fact and a hint.
        self._failure: tuple[str, str] | None = None

    def _open(self) -> None:
        """Called last by every constructor: from now on there is something to close."""
        self._closed = False
        _sessions.add(self)

    @property
    def is_closed(self) -> bool:
        """Whether nothing of it is on a device any more, or not yet."""
        return self._closed

    def _check(self) -> None:
        if self._failure is not None:
            raise DmcError("step", *self._failure)
        if self._closed:
            raise DmcError("step", "is closed", hint="load it again")

    def close(self) -> None:
        """Waits for queued work, then frees everything on the device; may be called twice."""
        with self.lock:
            if self._closed:
                return
            self._end()
            with undisturbed:
                self._closed = True
                self._release()

    def _end(self) -> None:
        """Waits for queued work. That of a failed step is reported to whoever waits for its loss, not here."""
        raise NotImplementedError

    def _release(self) -> None:
        """Frees what is on the device; nothing is running any more."""
        raise NotImplementedError

    def abandon(self) -> None:
        """In a forked process, where what it needs to work, and even to end, is missing: it stays as it is."""
        self.lock = threading.RLock()
        self._closed, self._failure = True, _FORKED
        keep_for_good(self)

    def __del__(self) -> None:
        # An exception in the constructor leaves nothing to wait for.
        if hasattr(self, "_failure"):
            self.close()


def open_sessions() -> tuple[Session, ...]:
    """Those that are not closed."""
    return tuple(each for each in _sessions if not each.is_closed)


def keep_for_good(value: object) -> None:
    """Never frees an object, not even when the process ends: its end would wait for threads that do not exist."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def _abandon_all() -> None:
    for session in open_sessions():
        session.abandon()


os.register_at_fork(after_in_child=_abandon_all)
