"""The inputs of a call to a GPU: copied to its memory while the call before runs."""

from __future__ import annotations

import numpy as np

from dmc.runtime.gpu.cuda_streams import CudaStreams


class Staging:
    """Memory for the inputs of one call in flight: pinned, which the host fills, and of the device, which steps read.

    host: u8[size], that which the host fills. address: where steps read it.
    """

    def __init__(self, device: CudaStreams, size: int) -> None:
        """Allocates both; raises DmcError where memory is exhausted."""
        self._device, self._size = device, size
        self._pinned, self._memory = device.allocate_pinned(size), device.allocate(size)
        self.host = np.frombuffer(self._pinned, np.uint8, size)
        self.address: int = self._memory.ptr

    def send(self) -> None:
        """Queues the copy, which what is queued on lane 0 afterwards waits for. The last call that read this memory
        must be done."""
        self._device.send(self.address, self._pinned.ptr, self._size)
