"""An IREE device, and tensors in its memory."""

from __future__ import annotations

import iree.runtime as iree
import numpy as np

from dmc.errors import DmcError
from dmc.runtime.dtypes import byte_count, dtype_of
from dmc.runtime.iree_errors import IREE_ERRORS, first_line
from dmc.runtime.signature import TensorSpec
from dmc.runtime.timeline import Timeline

_URI = {"cpu": "local-task", "cuda": "cuda"}

# Outputs up to this size (the loss, counts) travel to the host with every step.
_SMALL_BYTES = 4096

_STAGING_MEMORY = int(iree.MemoryType.HOST_LOCAL | iree.MemoryType.DEVICE_VISIBLE)
_STAGING_USAGE = int(iree.BufferUsage.TRANSFER | iree.BufferUsage.MAPPING)


class Device:
    """One open IREE device, and the timelines of the copies to and from it.

    Its memory must be freed before it: IREE's buffers point at their device without keeping it alive.
    """

    def __init__(self, target: str, uri: str | None = None) -> None:
        """Opens the device of a target ("cpu", "cuda"), or the one that an IREE URI names ("cuda://1").

        Raises DmcError if there is no such target or no such device.
        """
        if target not in _URI:
            raise DmcError(f"target {target!r}", f"not one of {', '.join(_URI)}", hint="compile the step again")
        uri = uri or _URI[target]
        try:
            # IREE caches devices by URI for the life of the process.
            self.hal = iree.get_device(uri)
        except IREE_ERRORS as error:
            fact = f"cannot be opened ({first_line(error)})"
            raise DmcError(f"device {uri!r}", fact, hint="run on a machine that has it, or compile for it") from error
        self.uri = uri
        self.uploads = Timeline(self.hal)
        self.downloads = Timeline(self.hal)

    def upload(self, source: iree.HalBuffer, target: iree.HalBuffer) -> int:
        """Queues a copy of a whole buffer to the device, returns at once, and gives its entry in `uploads`."""
        return self._copy(source, target, self.uploads, iree.HalFence(2))

    def download(self, source: iree.HalBuffer, target: iree.HalBuffer, after: Timeline | None = None) -> int:
        """Queues a copy of a whole buffer to the host behind everything queued on `after` so far, returns at once, and
        gives its entry in `downloads`.
        """
        before = iree.HalFence(2)
        if after is not None:
            after.insert_last(before)
        return self._copy(source, target, self.downloads, before)

    def release(self) -> None:
        """Lets go of the device; nothing may be in its memory any more."""
        del self.uploads, self.downloads, self.hal

    def _copy(self, source: iree.HalBuffer, target: iree.HalBuffer, timeline: Timeline, before: iree.HalFence) -> int:
        done = iree.HalFence(1)
        timeline.insert_last(before)
        timeline.insert_next(done)
        self.hal.queue_copy(source, target, wait_semaphores=before, signal_semaphores=done)
        return timeline.advance()


class DeviceTensor:
    """A tensor whose place in device memory never changes."""

    def __init__(self, device: Device, spec: TensorSpec, buffer: iree.HalBuffer | None = None) -> None:
        """Puts the tensor into `buffer`, which has its size, or into memory of its own.

        Its content is undefined. Raises DmcError if the device has no room.
        """
        self.spec = spec
        self._device = device
        buffer = buffer or _allocated(device, spec)
        self.view = iree.HalBufferView(buffer, spec.shape, getattr(iree.HalElementType, dtype_of(spec.dtype).hal))

    def write(self, array: np.ndarray) -> None:
        """Copies `array` (of the spec's shape and type) in and returns when it is there; nothing may be using it."""
        buffer = self.view.get_buffer()
        if is_mappable(buffer):
            np.copyto(_map(buffer, self.spec), array)
            return
        staging = _staging(self._device, self.spec)
        np.copyto(_map(staging, self.spec), array)
        self._device.uploads.wait(self._device.upload(staging, buffer))

    def read(self) -> np.ndarray:
        """A copy in host memory; whatever writes the tensor must be done."""
        return Reading(self._device, self.view, self.spec).array()


class InputTensor(DeviceTensor):
    """A tensor that is written before every step, without waiting: it keeps its own staging memory on the host."""

    def __init__(self, device: Device, spec: TensorSpec) -> None:
        super().__init__(device, spec)
        buffer = self.view.get_buffer()
        self._staging = None if is_mappable(buffer) else _staging(device, spec)
        self._host = _map(self._staging or buffer, spec)

    def stage(self, array: np.ndarray) -> None:
        """Copies `array` in, or queues the copy; the step that last read the tensor must be done."""
        np.copyto(self._host, array)
        if self._staging is not None:
            self._device.upload(self._staging, self.view.get_buffer())


class Reading:
    """A tensor on its way to the host.

    Where the host cannot address the memory, the copy of a small tensor is queued at once, behind `after`, so that a
    later step, already queued, does not delay it; a large one is copied only if somebody reads it.
    """

    def __init__(
        self, device: Device, view: iree.HalBufferView, spec: TensorSpec, after: Timeline | None = None
    ) -> None:
        self._device = device
        self._spec = spec
        self._source: iree.HalBuffer | None = view.get_buffer()
        self._target: iree.HalBuffer | None = None
        self._entry = 0
        if is_mappable(self._source):
            self._target = self._source
        elif byte_count(spec) <= _SMALL_BYTES:
            self._queue(after)

    def array(self) -> np.ndarray:
        """A copy in host memory. What writes the tensor must be done; waits for the copy, raises one of
        IREE_ERRORS if it failed.
        """
        if self._target is None:
            self._queue(None)
        assert self._target is not None, "read after release"
        self._device.downloads.wait(self._entry)
        return _map(self._target, self._spec).copy()

    def release(self) -> None:
        """Lets go of the memory; may be called twice."""
        self._source = self._target = None

    def _queue(self, after: Timeline | None) -> None:
        assert self._source is not None, "queued after release"
        self._target = _staging(self._device, self._spec)
        self._entry = self._device.download(self._source, self._target, after)


def is_mappable(buffer: iree.HalBuffer) -> bool:
    """Whether the host can address the buffer."""
    visible = int(iree.MemoryType.HOST_VISIBLE)
    mapping = int(iree.BufferUsage.MAPPING_SCOPED)
    return buffer.memory_type() & visible == visible and buffer.allowed_usage() & mapping == mapping


def _allocated(device: Device, spec: TensorSpec) -> iree.HalBuffer:
    try:
        return device.hal.allocator.allocate_buffer(
            memory_type=iree.MemoryType.DEVICE_LOCAL,
            allowed_usage=iree.BufferUsage.DEFAULT,
            allocation_size=byte_count(spec),
        )
    except IREE_ERRORS as error:
        fact = f"device {device.uri!r} gives no {byte_count(spec)} bytes ({first_line(error)})"
        raise DmcError(spec.name, fact, hint="free device memory or make the model smaller") from error


def _staging(device: Device, spec: TensorSpec) -> iree.HalBuffer:
    return device.hal.allocator.allocate_buffer(
        memory_type=_STAGING_MEMORY, allowed_usage=_STAGING_USAGE, allocation_size=byte_count(spec)
    )


def _map(buffer: iree.HalBuffer, spec: TensorSpec) -> np.ndarray:
    """The buffer's memory as an array; the array keeps the mapping."""
    # IREE's own mapping knows no bfloat16, so bytes are mapped and typed here.
    data = buffer.map().asarray((byte_count(spec),), np.dtype(np.uint8))
    return data.view(dtype_of(spec.dtype).numpy).reshape(spec.shape)
