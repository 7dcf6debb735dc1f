"""A planned step of one rank on a GPU: its arenas, and the whole step as one CUDA graph, replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmc.errors import ArtifactError
from dmc.program import Job, Slot, Space
from dmc.program.code import DeviceCode
from dmc.runtime.cuda_streams import CudaStreams
from dmc.runtime.dtypes import dtype_of
from dmc.runtime.replay import issue

_HOST_ROLES = ("control", "batch")


class Replay:
    """A planned step on one GPU. The arenas are allocated once, the step is captured once; a step is a graph launch.

    Nothing is allocated and nothing decided in a step.
    """

    def __init__(self, job: Job, code: DeviceCode, device: CudaStreams) -> None:
        """Allocates and captures; the state is undefined until it is written.

        Raises ArtifactError for a job of more than one rank, DmcError where the device has no room.
        """
        if len(job.programs) != 1:
            fact = f"has {len(job.programs)} ranks, and this executor runs one"
            raise ArtifactError("the plan", fact, hint="compile the step without a mesh")
        (program,) = job.programs
        self._device = device
        self._slots = {slot.name: slot for slot in program.slots}
        device.prepare(len(program.lanes), code)
        self._arenas: dict[Space, Any] = {
            space: device.allocate(size) if space == "device" else device.allocate_pinned(size)
            for space, size in program.arenas.items()
        }
        self._bases: dict[Space, int] = {space: arena.ptr for space, arena in self._arenas.items()}
        self._host = np.frombuffer(self._arenas["pinned_host"], np.uint8)
        self._graph = device.captured(lambda: issue(program, code, self._bases, device))

    def write_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Overwrites state tensors, by name; no step may be running."""
        for name, array in state.items():
            slot = self._slots[name]
            self._device.upload(self._bases["device"] + slot.range.offset, _bytes(array, slot))

    def read_state(self, name: str) -> np.ndarray:
        """A host copy of a state tensor; no step may be running."""
        slot = self._slots[name]
        data = self._device.download(self._bases["device"] + slot.range.offset, slot.range.length)
        return data.view(dtype_of(slot.dtype).numpy).reshape(slot.shape)

    def fill(self, inputs: Mapping[str, np.ndarray]) -> None:
        """Puts controls and batch, by name, where the next step reads them; no step may be running."""
        for name, array in inputs.items():
            slot = self._slots[name]
            where = slot.range
            self._host[where.offset : where.end] = np.frombuffer(_bytes(array, slot), np.uint8)

    def launch(self) -> None:
        """Queues one step and returns at once."""
        self._graph.launch(self._device.main)

    def wait(self) -> None:
        """Blocks until every queued step is done."""
        self._device.main.synchronize()

    def output(self, name: str) -> np.ndarray:
        """An output of the last step, which must be done."""
        slot = self._slots[name]
        data = self._host[slot.range.offset : slot.range.end].copy()
        return data.view(dtype_of(slot.dtype).numpy).reshape(slot.shape)

    @property
    def inputs(self) -> Sequence[str]:
        """What `fill` takes."""
        return [slot.name for slot in self._slots.values() if slot.role in _HOST_ROLES]


def _bytes(array: np.ndarray, slot: Slot) -> bytes:
    expected = dtype_of(slot.dtype).numpy
    if array.shape != slot.shape or array.dtype != expected:
        fact = f"is {array.dtype}{list(array.shape)}, expected {expected}{list(slot.shape)}"
        raise ArtifactError(f"'{slot.name}'", fact, hint="give each tensor the type and shape of its slot")
    return np.ascontiguousarray(array).tobytes()
