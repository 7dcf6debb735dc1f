"""The arenas of a planned job as IREE and the host see them, and where in them its tensors are."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from itertools import cycle

import iree.runtime as iree
import msgspec
import numpy as np

from dmc.dtypes import byte_count, describe, dtype_of
from dmc.errors import ArtifactError, DmcError
from dmc.program import DEVICE, KEPT, PINNED_HOST, STAGED, Job, Program, Range, Slot, Space
from dmc.program.signature import TensorSpec
from dmc.runtime.sessions.iree import device as devices
from dmc.runtime.sessions.iree.device import HOST_MEMORY, HOST_USAGE, Device
from dmc.runtime.sessions.iree.errors import IREE_ERRORS, first_line
from dmc.runtime.sessions.iree.timeline import Timeline

# MLIR's integers are signless; the host's are not.
_SIGNLESS = {"ui8": "i8"}


class Arena:
    """The memory of one space of one rank. view: for IREE; bytes: for the host, u8[size].

    Where the host cannot address device memory, `bytes` is a copy, which `pull` and `push` synchronise.
    """

    def __init__(self, device: Device, name: str, space: Space, size: int) -> None:
        """Allocates at least one byte; the content is undefined. Raises DmcError if memory is exhausted."""
        self._device, size = device, max(size, 1)
        is_on_device = space == DEVICE
        self._buffer = _allocated(device, name, *(_DEVICE if is_on_device else _HOST), size)
        is_copied = is_on_device and not devices.is_mappable(self._buffer)
        self._mapped = _allocated(device, name, *_HOST, size) if is_copied else self._buffer
        self.view = iree.HalBufferView(self._buffer, (size,), iree.HalElementType.INT_8)
        self.bytes = self._mapped.map().asarray((size,), np.dtype(np.uint8))

    def pull(self) -> None:
        """Copies the device's memory to `bytes`; nothing may be using it."""
        if self._mapped is not self._buffer:
            self._device.copy(self._buffer, self._mapped)

    def push(self) -> None:
        """Copies `bytes` to the device's memory; nothing may be using it."""
        if self._mapped is not self._buffer:
            self._device.copy(self._mapped, self._buffer)


# The kind of memory and its allowed uses.
_DEVICE = int(iree.MemoryType.DEVICE_LOCAL), int(iree.BufferUsage.DEFAULT)
_HOST = HOST_MEMORY, HOST_USAGE


def _allocated(device: Device, name: str, memory: int, usage: int, size: int) -> iree.HalBuffer:
    try:
        return device.hal.allocator.allocate_buffer(memory_type=memory, allowed_usage=usage, allocation_size=size)
    except IREE_ERRORS as error:
        fact = f"device {device.uri!r} cannot allocate {size} bytes ({first_line(error)})"
        raise DmcError(name, fact, hint="free memory or make the model smaller") from error


Arenas = dict[tuple[int, Space], Arena]


def arenas(device: Device, job: Job, spaces: Sequence[Space]) -> Arenas:
    """An arena for each rank and each of `spaces` that it uses."""
    return {
        (program.rank, space): Arena(device, f"{space} arena of rank {program.rank}", space, size)
        for program in job.programs
        for space, size in program.arenas.items()
        if space in spaces
    }


def shared_arenas(device: Device, jobs: Sequence[Job]) -> Arenas:
    """For each rank the arenas that all calls of all programs share, as large as the largest needs them."""
    sizes: dict[tuple[int, Space], int] = {}
    for program in [program for job in jobs for program in job.programs]:
        for space in KEPT:
            if space in program.arenas:
                key = (program.rank, space)
                sizes[key] = max(program.arenas[space], sizes.get(key, 0))
    return {
        (rank, space): Arena(device, f"{space} arena of rank {rank}", space, size)
        for (rank, space), size in sizes.items()
    }


class Places:
    """The slots of the programs' tensors: for each tensor one per rank, in rank order."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._ranks = [program.rank for program in programs]
        self._slots = {(program.rank, slot.name): slot for program in programs for slot in program.slots}

    def of(self, specs: Sequence[TensorSpec]) -> list[tuple[int, Slot]]:
        """The rank and the slot of each tensor of these ranks (`Ranks.linked`); raises ArtifactError for one without a
        slot, and for one that a rank has a slot for, but does not hold."""
        return [self._place(spec, rank) for spec, rank in zip(specs, cycle(self._ranks), strict=False)]

    def _place(self, spec: TensorSpec, rank: int) -> tuple[int, Slot]:
        slot = self._slots.get((rank, spec.name.removesuffix(f"@{rank}")))
        if not byte_count(spec) and (slot is None or not slot.range.length):
            return rank, Slot(spec.name, "", spec.dtype, spec.shape, Range(DEVICE, 0, 0))
        if slot is None:
            raise ArtifactError("the plan", f"has no slot for {spec.name!r}", hint="compile the step again")
        if slot.shape != spec.shape or _SIGNLESS.get(spec.dtype, spec.dtype) != slot.dtype:
            has, wants = describe(slot.dtype, slot.shape), describe(spec.dtype, spec.shape)
            raise ArtifactError(
                "the plan", f"has {spec.name!r} as {has}, not as {wants}", hint="compile the step again"
            )
        return rank, msgspec.structs.replace(slot, dtype=spec.dtype)


def tensor(memory: Arenas, rank: int, slot: Slot) -> np.ndarray:
    """The memory of a tensor as an array."""
    return typed(memory[rank, slot.range.space].bytes[slot.range.offset : slot.range.end], slot)


def typed(data: np.ndarray, slot: Slot | TensorSpec) -> np.ndarray:
    """The bytes of a tensor as an array of its type and shape."""
    return data.view(dtype_of(slot.dtype).numpy).reshape(slot.shape)


class PlannedReading:
    """An output of a step, in memory that a later step will use again."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory: np.ndarray | None = memory

    def array(self) -> np.ndarray:
        """A copy of the value; the step must be done."""
        assert self._memory is not None, "read after release"
        return self._memory.copy()

    def keep(self) -> None:
        """Copies the value out of that memory; the step must be done."""
        assert self._memory is not None, "kept after release"
        self._memory = self._memory.copy()

    def release(self) -> None:
        """Releases the memory; may be called twice."""
        self._memory = None


class Readings:
    """The outputs of a step that may still be referenced."""

    def __init__(self) -> None:
        self._given: list[weakref.ref[PlannedReading]] = []

    def give(self, outputs: Iterable[np.ndarray]) -> list[PlannedReading]:
        """One for each output."""
        given = [PlannedReading(memory) for memory in outputs]
        self._given += map(weakref.ref, given)
        return given

    def keep(self) -> None:
        """Before their memory is reused: copies out those still referenced; the step must be done."""
        for reading in self._held():
            reading.keep()
        self._given.clear()

    def release(self) -> None:
        """Releases the memory."""
        for reading in self._held():
            reading.release()

    def _held(self) -> list[PlannedReading]:
        return [held for each in self._given if (held := each()) is not None]


class Flight:
    """The resources of one step in flight: inputs, outputs, fences and argument list, all created once.

    memory: the arenas of the step, its own and the shared ones. entry: the last step that used it.
    """

    def __init__(self, device: Device, job: Job, shared: Arenas) -> None:
        self.memory = {**shared, **arenas(device, job, [PINNED_HOST, STAGED])}
        self.entry = 0
        self._readings = Readings()
        self._wait, self._signal = iree.HalFence(1), iree.HalFence(1)
        self.arguments = iree.VmVariantList(len(self.memory) + 2)
        for program in job.programs:
            for space in program.arenas:
                self.arguments.push_ref(self.memory[program.rank, space].view.ref)
        self.arguments.push_ref(self._wait.ref)
        self.arguments.push_ref(self._signal.ref)

    def fill(self, places: Sequence[tuple[int, Slot]], values: Sequence[np.ndarray]) -> None:
        """Writes inputs; the last step that used this must be done."""
        for (rank, slot), value in zip(places, values, strict=True):
            np.copyto(tensor(self.memory, rank, slot), value)

    def set_fences(self, steps: Timeline) -> None:
        """Orders the next step after all queued ones, and lets it signal its completion."""
        steps.insert_last(self._wait)
        steps.insert_next(self._signal)

    def readings(self, places: Sequence[tuple[int, Slot]]) -> list[PlannedReading]:
        """The outputs, to be read when the step is done."""
        return self._readings.give(tensor(self.memory, rank, slot) for rank, slot in places)

    def let_go(self) -> None:
        """Before its memory is reused: copies out outputs that are still referenced."""
        self._readings.keep()

    def release(self) -> None:
        """Releases the memory; nothing is running any more."""
        self._readings.release()
        self.memory.clear()
        del self.arguments
