"""The state in device memory: tensors with memory of their own, and arenas that hold many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import iree.runtime as iree
import numpy as np

from dmc.runtime.device import Device, DeviceTensor
from dmc.runtime.dtypes import byte_count, dtype_of
from dmc.runtime.signature import Arena, Signature, StateSpec, TensorSpec

# (buffer, offset, length) -> the part of the buffer, in bytes, as a buffer.
Subspan = Callable[[iree.HalBuffer, int, int], iree.HalBuffer]


class Memory:
    """Every state tensor of a step, at a place that never changes."""

    def __init__(self, device: Device, signature: Signature, subspan: Subspan) -> None:
        """Allocates; the content is undefined. Raises DmcError if the device has no room."""
        self._specs = signature.state
        self._arenas = [_ArenaMemory(device, arena, signature.state, subspan) for arena in signature.arenas]
        self._tensors = {name: tensor for arena in self._arenas for name, tensor in arena.members.items()}
        for spec in signature.state:
            if spec.name not in self._tensors:
                self._tensors[spec.name] = DeviceTensor(device, spec)
        self.passed = [self._tensors[spec.name] for spec in signature.passed]
        self.arenas = [arena.whole for arena in self._arenas]

    def read(self, index: int) -> np.ndarray:
        """A host copy of one state tensor, by its index in `signature.state`; whatever writes it must be done."""
        return self._tensors[self._specs[index].name].read()

    def write(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrites the whole state with one array for each of `signature.state`; nothing may be using it."""
        named = {spec.name: array for spec, array in zip(self._specs, arrays, strict=True)}
        for arena in self._arenas:
            arena.write({name: named.pop(name) for name in arena.members})
        for name, array in named.items():
            self._tensors[name].write(array)


class _ArenaMemory:
    """An arena and its members in it."""

    def __init__(self, device: Device, arena: Arena, state: Sequence[StateSpec], subspan: Subspan) -> None:
        self._offsets = arena.members
        self.whole = DeviceTensor(device, TensorSpec(arena.name, arena.dtype, (arena.length,)))
        buffer = self.whole.view.get_buffer()
        width = byte_count(TensorSpec(arena.name, arena.dtype, ()))
        self.members = {
            spec.name: DeviceTensor(
                device, spec, subspan(buffer, arena.members[spec.name] * width, max(byte_count(spec), 1))
            )
            for spec in state
            if spec.name in arena.members
        }

    def write(self, arrays: dict[str, np.ndarray]) -> None:
        # In one go, and with zeros between the members.
        flat = np.zeros(self.whole.spec.shape, dtype_of(self.whole.spec.dtype).numpy)
        for name, array in arrays.items():
            flat[self._offsets[name] : self._offsets[name] + array.size] = array.reshape(-1)
        self.whole.write(flat)
