"""What no signal cuts in two: handlers of Python wait until it is done, and then run as usual."""

from __future__ import annotations

# Without the enumerations that `signal` puts around it, which take ten times as long.
import _signal  # pyright: ignore[reportMissingImports]
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeAlias

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]

# Those whose handlers programs write, and which may raise: Ctrl-C, time limits, a launcher's.
_NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGPROF")
_NUMBERS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))


class Undisturbed:
    """`with undisturbed:`, nested or not. Only the main thread runs handlers; in others it changes nothing.

    A handler that stands aside is kept by `_hold`, which takes its place: inside it notes the signal, and outside,
    where a signal came between two lines below, it calls the handler. So none is lost, whatever is interrupted.
    """

    def __init__(self) -> None:
        self._depth, self._thread = 0, 0
        self._aside: dict[int, _Handler] = {}
        self._noted: list[tuple[_Handler, int, FrameType | None]] = []
        self._holder = self._hold

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        try:
            if not self._depth:
                self._thread = threading.get_ident()
                self._put_aside()
            self._depth += 1
        except BaseException:
            self._put_back()
            raise

    def __exit__(self, *_: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth -= 1
        if self._depth:
            return
        try:
            self._put_back()
        finally:
            self._catch_up()

    def handler_of(self, number: int) -> Any:
        """The handler of a signal, also while it stands aside."""
        handler = _signal.getsignal(number)
        return self._aside[number] if handler is self._holder else handler

    def after_fork(self) -> None:
        """In a forked process: what another thread was doing then never ends here."""
        if self._thread != threading.get_ident():
            self._depth = 0
            self._noted.clear()
            self._put_back()

    def _put_aside(self) -> None:
        for number in _NUMBERS:
            handler = _signal.getsignal(number)
            if callable(handler) and handler is not self._holder:
                self._aside[number] = handler
                _signal.signal(number, self._holder)

    def _put_back(self) -> None:
        for number, handler in [*self._aside.items()]:
            # A handler may have set another one meanwhile.
            if _signal.getsignal(number) is self._holder:
                _signal.signal(number, handler)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        handler = self._aside[number]
        if self._depth:
            self._noted.append((handler, number, frame))
        else:
            handler(number, frame)

    def _catch_up(self) -> None:
        """Each handler runs, although those before it raise."""
        if not self._noted:
            return
        handler, number, frame = self._noted.pop(0)
        try:
            handler(number, frame)
        finally:
            self._catch_up()


undisturbed = Undisturbed()
os.register_at_fork(after_in_child=undisturbed.after_fork)
