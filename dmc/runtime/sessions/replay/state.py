"""The state of a step on one GPU: in device memory, and in pinned host memory what waits there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmc.dtypes import byte_count
from dmc.program import DEVICE, HOST, KEPT, Program, Slot, Space
from dmc.program.signature import TensorSpec
from dmc.runtime.gpu.cuda_streams import CudaStreams
from dmc.runtime.sessions.iree.planned_memory import typed
from dmc.runtime.tensors.arrays import are_zeros, bytes_of


class ReplayState:
    """Tensors by their indices in the signature. Nothing may be using them while they are read or written.

    arenas: the memory that all programs share.
    """

    def __init__(self, device: CudaStreams, slots: Sequence[Slot], programs: Sequence[Program]) -> None:
        """Allocates arenas, each as large as the largest program needs it; raises DmcError."""
        self._device, self._slots = device, slots
        allocate: dict[Space, Any] = {DEVICE: device.allocate, HOST: device.allocate_pinned}
        sizes: dict[Space, int] = {space: max(each.arenas.get(space, 0) for each in programs) for space in KEPT}
        self.arenas: dict[Space, Any] = {space: allocate[space](size) for space, size in sizes.items() if size}

    @property
    def addresses(self) -> Mapping[Space, int]:
        """Where the arenas are."""
        return {space: arena.ptr for space, arena in self.arenas.items()}

    def read(self, index: int) -> np.ndarray:
        """A copy of a tensor."""
        slot = self._slots[index]
        return typed(self._bytes(slot), slot)

    def write(self, index: int, array: np.ndarray) -> None:
        """Overwrites a tensor."""
        slot = self._slots[index]
        if not slot.range.length:
            return
        if slot.range.space == HOST:
            self._in_host_memory(slot)[:] = 0 if are_zeros(array) else bytes_of(array)
        elif are_zeros(array):
            self._device.fill(0, self._address(slot), slot.range.length, b"\0")
        else:
            self._device.upload(self._address(slot), bytes_of(array))

    def room(self, index: int, part: TensorSpec, place: int | None, parts: int) -> Room:
        """Device memory for so many parts of a tensor, each like `part`, and where this rank's own is. place: of that
        among them; None where this rank gives none."""
        memory, slot = self._device.allocate(parts * byte_count(part)), self._slots[index]
        source = memory.ptr
        if place is not None and slot.range.space == HOST:
            # What is given is in device memory: here it is this rank's part of the room.
            source += place * slot.range.length
            self._device.upload(source, self._bytes(slot))
        elif place is not None:
            source = self._address(slot)
        return Room(self._device, part, memory, source, parts)

    def _address(self, slot: Slot) -> int:
        return self.arenas[slot.range.space].ptr + slot.range.offset

    def _bytes(self, slot: Slot) -> np.ndarray:
        if slot.range.space == HOST:
            return self._in_host_memory(slot).copy()
        return self._device.download(self._address(slot), slot.range.length)

    def _in_host_memory(self, slot: Slot) -> np.ndarray:
        return np.frombuffer(self.arenas[HOST], np.uint8)[slot.range.offset : slot.range.end]


class Room:
    """See `ReplayState.room`. source: where this rank's part is. target: where all parts will be. length: of a part."""

    def __init__(self, device: CudaStreams, part: TensorSpec, memory: Any, source: int, parts: int) -> None:
        self._device, self._part, self._memory, self._parts = device, part, memory, parts
        self.source, self.target, self.length = source, memory.ptr, byte_count(part)

    def parts(self) -> list[np.ndarray]:
        """All parts, once they are there."""
        data = self._device.download(self.target, self._parts * self.length)
        return [typed(part, self._part) for part in data.reshape(self._parts, self.length)]
