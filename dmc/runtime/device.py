"""An IREE device, and copies to and from its memory."""

from __future__ import annotations

import iree.runtime as iree

from dmc.errors import DmcError
from dmc.runtime.iree_errors import IREE_ERRORS, first_line
from dmc.runtime.timeline import Timeline

_DRIVERS = {"cpu": "local-task", "cuda": "cuda"}

# Host memory that a device copies to and from.
HOST_MEMORY = int(iree.MemoryType.HOST_LOCAL | iree.MemoryType.DEVICE_VISIBLE)
HOST_USAGE = int(iree.BufferUsage.DEFAULT | iree.BufferUsage.MAPPING)


class Device:
    """One open IREE device.

    Its memory must be freed before it: IREE's buffers point at their device without keeping it alive.
    """

    def __init__(self, kind: str, ordinal: int = 0) -> None:
        """Opens a device of this kind ("cpu", "cuda"); raises DmcError if there is none."""
        self.kind = kind
        self.uri = f"{_DRIVERS[kind]}://{ordinal}" if ordinal else _DRIVERS[kind]
        try:
            # IREE caches devices by URI for the life of the process.
            self.hal = iree.get_device(self.uri)
        except IREE_ERRORS as error:
            fact = f"cannot be opened ({first_line(error)})"
            hint = "run on a machine that has it, or compile for another target"
            raise DmcError(f"device {self.uri!r}", fact, hint) from error
        self._copies = Timeline(self.hal)

    def lanes(self, count: int) -> list[iree.HalDevice]:
        """Several devices on one machine: each is an in-order queue; on a CPU all share one thread pool."""
        driver = iree.get_driver(_DRIVERS[self.kind])
        return [self.hal, *(driver.create_default_device() for _ in range(count - 1))]

    def copy(self, source: iree.HalBuffer, target: iree.HalBuffer) -> None:
        """Copies a whole buffer and returns when that is done; nothing may be using either."""
        done = iree.HalFence(1)
        self._copies.insert_next(done)
        self.hal.queue_copy(source, target, wait_semaphores=iree.HalFence(0), signal_semaphores=done)
        self._copies.wait(self._copies.advance())

    def release(self) -> None:
        """Releases the device; its memory must have been freed."""
        del self._copies, self.hal


def is_mappable(buffer: iree.HalBuffer) -> bool:
    """Whether the host can address the buffer."""
    visible = int(iree.MemoryType.HOST_VISIBLE)
    mapping = int(iree.BufferUsage.MAPPING_SCOPED)
    return buffer.memory_type() & visible == visible and buffer.allowed_usage() & mapping == mapping
