"""Drivers of devices in a forked process: their threads, and what they know of a device, are in the one before it."""

from __future__ import annotations

import os

from dmc.errors import DmcError

_opened: set[str] = set()
_elsewhere: set[str] = set()


def open_here(driver: str, device: str) -> None:
    """To be called before a driver is used. Raises DmcError where a process before this one has opened it."""
    if driver in _elsewhere:
        fact = "was opened before this process was forked, and its threads are in the other"
        hint = "start the process with multiprocessing's 'spawn', or load the first step after the fork"
        raise DmcError(f"device {device!r}", fact, hint)
    _opened.add(driver)


os.register_at_fork(after_in_child=lambda: _elsewhere.update(_opened))
