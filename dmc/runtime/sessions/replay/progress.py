"""How far a step on a GPU is, for the flight recorder: the host sees no command of a CUDA graph end."""

from __future__ import annotations

import numpy as np

from dmc.program import Collective, Program
from dmc.runtime.gpu.cuda_streams import CudaStreams


class Progress:
    """After each movement between ranks, a number is copied to pinned memory. One per step in flight.

    The copies have a lane of their own, the last, so that no movement waits for one. A copy waits for those before it;
    so the first movement that has not ended is the first without its copy.
    """

    def __init__(self, device: CudaStreams, program: Program) -> None:
        """Allocates; raises DmcError where memory is exhausted."""
        numbers = np.arange(1, len(program.commands) + 2, dtype=np.int64)
        self._device, self._lane = device, len(program.lanes)
        self._movements = [(i, each.lane) for i, each in enumerate(program.commands) if isinstance(each, Collective)]
        self._numbers = device.allocate(numbers.nbytes)
        device.upload(self._numbers.ptr, numbers.tobytes())
        self._memory = device.allocate_pinned(8 * len(program.lanes))
        self._done = np.frombuffer(self._memory, np.int64, len(program.lanes))
        self.reset()

    def reset(self) -> None:
        """Before the step is launched."""
        self._done[:] = 0

    def mark(self, lane: int, place: int) -> None:
        """Issues the copy after the command at `place` of the program."""
        self._device.wait(self._lane, self._device.record(lane))
        self._device.copy(self._lane, self._memory.ptr + 8 * lane, self._numbers.ptr + 8 * place, 8)

    def unfinished(self) -> int | None:
        """The place of the first movement that has not ended; None if all have."""
        return next((place for place, lane in self._movements if self._done[lane] <= place), None)
