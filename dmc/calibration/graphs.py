"""Times commands on a GPU as a plan has them: captured as one graph, on lanes, in an arena."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from msgspec.structs import replace

from dmc.program import Command, Lane, Operand, Program, Space
from dmc.program.code import DeviceCode
from dmc.runtime.gpu.cuda_streams import CudaStreams
from dmc.runtime.sessions.replay.issue import issue
from dmc.runtime.sessions.replay.tuner import drawn
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.neighbours import neighbours
from dmc.runtime.world.store import Store

# Of both arenas.
DEVICE_BYTES, PINNED_BYTES = 3 << 30, 64 << 20
_ROUNDS = 5


class Graphs:
    """A device with arenas of random numbers, and code. channels: of a job of several ranks."""

    def __init__(
        self,
        device: CudaStreams,
        lanes: tuple[Lane, ...],
        code: DeviceCode,
        rank: int = 0,
        channels: Channels | None = None,
    ) -> None:
        """Allocates and fills the arenas."""
        self._device, self._lanes, self._code, self._rank = device, lanes, code, rank
        device.prepare(len(lanes), code, channels)
        self._connect: Callable[[Program], None] = lambda program: None
        self._memory, self._pinned = device.allocate(DEVICE_BYTES), device.allocate_pinned(PINNED_BYTES)
        self._bases: dict[Space, int] = {"device": self._memory.ptr, "pinned_host": self._pinned.ptr}
        # What is zero takes less power, and so less time. These bits are finite numbers in each type.
        data = drawn(Operand("bf16", (DEVICE_BYTES // 2,)), 0).tobytes()
        device.upload(self._memory.ptr, data)
        done = len(data)
        while done < DEVICE_BYTES:
            length = min(done, DEVICE_BYTES - done)
            device.copy(0, self._memory.ptr + done, self._memory.ptr, length)
            done += length
        np.frombuffer(self._pinned, np.uint8, PINNED_BYTES)[:] = 1
        device.drain()

    def share(self, store: Store, channels: Channels, is_wanted: bool) -> bool:
        """Lets ranks copy out of each other's arenas, as in a step, if all want and can; all ranks call this.

        Their commands are the same.
        """
        found = neighbours(store, self._device.peer_memory(), self._memory.ptr, channels.flags, is_wanted)
        if found is not None:
            ranks = range(store.world.size)
            self._connect = lambda program: channels.connect(found, programs=[replace(program, rank=r) for r in ranks])
        return found is not None

    def ns(self, commands: Sequence[Command], rounds: int = _ROUNDS) -> float:
        """Nanoseconds of all of them, from the first to the last: the median of so many rounds."""
        program = Program(self._rank, {}, self._lanes, (), tuple(commands))
        self._connect(program)

        def work() -> Any:
            issue(program, self._code, self._bases, self._device)

        launch = self._device.captured(work)
        self._device.seconds(launch)
        return 1e9 * median(self._device.seconds(launch) for _ in range(rounds))
