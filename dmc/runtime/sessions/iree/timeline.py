"""Order of work on a device: one semaphore that counts upward."""

from __future__ import annotations

import iree.runtime as iree

_PAUSE_NS = 50_000_000


class Timeline:
    """Work queued in order; entry n is done when the semaphore has reached n. `last` is the latest entry."""

    def __init__(self, device: iree.HalDevice) -> None:
        self.semaphore = device.create_semaphore(0)
        self.last = 0

    def insert_last(self, fence: iree.HalFence) -> None:
        """Makes `fence` wait for everything queued so far."""
        fence.insert(self.semaphore, self.last)

    def insert_next(self, fence: iree.HalFence) -> None:
        """Makes `fence` signal the next entry; call `advance` once the work is queued."""
        fence.insert(self.semaphore, self.last + 1)

    def advance(self) -> int:
        """Counts the entry just queued and returns its number."""
        self.last += 1
        return self.last

    def wait(self, entry: int) -> None:
        """Blocks until an entry is done; raises one of IREE_ERRORS if work on this timeline has failed."""
        # IREE does not look for signals.
        while not self.semaphore.wait(entry, timeout=_PAUSE_NS):
            continue

    def is_reached(self, entry: int) -> bool:
        """Whether an entry is done; raises one of IREE_ERRORS if work on this timeline has failed."""
        return self.semaphore.query() >= entry

    def fail(self, message: str) -> None:
        """Fails the timeline: every current and later wait on it raises the message as an error."""
        self.semaphore.fail(message)
