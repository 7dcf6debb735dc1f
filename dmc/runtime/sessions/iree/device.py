"""An IREE device, and copies to and from its memory."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from functools import cache

import iree.runtime as iree
from iree.runtime import _binding  # pyright: ignore[reportPrivateUsage]

from dmc.errors import DmcError
from dmc.runtime.process.forked import open_here
from dmc.runtime.process.undisturbed import undisturbed
from dmc.runtime.sessions.iree.errors import IREE_ERRORS, first_line
from dmc.runtime.sessions.iree.timeline import Timeline
from dmc.runtime.sessions.session import keep_for_good

_DRIVERS = {"cpu": "local-task", "cuda": "cuda"}

# Host memory that a device copies to and from.
HOST_MEMORY = int(iree.MemoryType.HOST_LOCAL | iree.MemoryType.DEVICE_VISIBLE)
HOST_USAGE = int(iree.BufferUsage.DEFAULT | iree.BufferUsage.MAPPING)


@dataclass(frozen=True)
class Lanes:
    """Several devices on one machine, each an in-order queue; on a CPU all share one thread pool.

    module: of IREE, through which code uses them. instance: of IREE, to which all code belongs.
    """

    count: int
    devices: tuple[iree.HalDevice, ...]
    module: iree.VmModule
    instance: iree.VmInstance


# By the name of the device and their number, those that no session uses: IREE never frees a module of several devices.
_UNUSED: defaultdict[tuple[str, int], list[Lanes]] = defaultdict(list)


class Device:
    """One open IREE device.

    Its memory must be freed before it: IREE's buffers point at their device without keeping it alive.
    """

    def __init__(self, kind: str, ordinal: int = 0) -> None:
        """Opens a device of this kind ("cpu", "cuda"); raises DmcError if there is none."""
        self.kind = kind
        driver = _DRIVERS[kind]
        self.uri = f"{driver}://{ordinal}" if ordinal else driver
        open_here(driver, self.uri)
        try:
            # IREE caches devices by URI for the life of the process.
            self.hal = iree.get_device(self.uri)
        except IREE_ERRORS as error:
            fact = f"cannot be opened ({first_line(error)})"
            hint = "run on a machine that has it, or compile for another target"
            raise DmcError(f"device {self.uri!r}", fact, hint) from error
        self._copies = Timeline(self.hal)
        self._lent: list[Lanes] = []

    def lanes(self, count: int) -> Lanes:
        """So many lanes, for the time until `release`; the first is this device."""
        unused = _UNUSED[self.uri, count]
        self._lent.append(unused.pop() if unused else self._new_lanes(count))
        return self._lent[-1]

    def _new_lanes(self, count: int) -> Lanes:
        driver = iree.get_driver(_DRIVERS[self.kind])
        devices = [self.hal, *(driver.create_default_device() for _ in range(count - 1))]
        return Lanes(count, tuple(devices), iree.create_hal_module(_instance(), devices=devices), _instance())

    def copy(self, source: iree.HalBuffer, target: iree.HalBuffer) -> None:
        """Copies a whole buffer and returns when that is done; nothing may be using either."""
        done = iree.HalFence(1)
        with undisturbed:
            self._copies.insert_next(done)
            self.hal.queue_copy(source, target, wait_semaphores=iree.HalFence(0), signal_semaphores=done)
            self._copies.wait(self._copies.advance())

    def release(self, is_sound: bool = True) -> None:
        """Releases the device; its memory must have been freed. is_sound: whether others may use the lanes."""
        for lanes in self._lent if is_sound else ():
            _UNUSED[self.uri, lanes.count].append(lanes)
        del self._copies, self._lent, self.hal


@cache
def _instance() -> iree.VmInstance:
    return iree.VmInstance()


def _after_fork() -> None:
    keep_for_good(_UNUSED)
    # IREE would print a page about them when the process ends.
    _binding.disable_leak_checker()


os.register_at_fork(after_in_child=_after_fork)


def is_mappable(buffer: iree.HalBuffer) -> bool:
    """Whether the host can address the buffer."""
    visible = int(iree.MemoryType.HOST_VISIBLE)
    mapping = int(iree.BufferUsage.MAPPING_SCOPED)
    return buffer.memory_type() & visible == visible and buffer.allowed_usage() & mapping == mapping
