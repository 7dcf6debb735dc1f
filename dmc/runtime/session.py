"""The state on the device and the steps in flight on it."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from collections.abc import Mapping, Sequence

import iree.runtime as iree
import numpy as np

from dmc.errors import ArtifactError, DmcError
from dmc.runtime.device import Device, Reading
from dmc.runtime.iree_errors import IREE_ERRORS, first_line
from dmc.runtime.memory import Memory, Subspan
from dmc.runtime.signature import Signature, TensorSpec
from dmc.runtime.slot import Slot
from dmc.runtime.timeline import Timeline

# Steps in flight at most: while one runs, the next is prepared. More would only delay the report of an error.
RUN_AHEAD = 2

_STALE = "the state can no longer be trusted: load the last saved file"

_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """A loaded step with its state in device memory, where it stays: a step updates it in place.

    Steps are queued in order and run in order. After a failure every further use raises.
    """

    def __init__(
        self, device: Device, signature: Signature, modules: Mapping[str, bytes], state: Sequence[np.ndarray]
    ) -> None:
        """Uploads `state` (one array per `signature.state`) and loads `modules`.

        "step" has the function `step`; where there are arenas, "subspan" has the function `subspan`. Raises
        ArtifactError if a module does not load or has no such function, DmcError if the device is full.
        """
        self._device = device
        self._signature = signature
        self._steps = Timeline(device.hal)
        self._failure: str | None = None
        self._closed = False
        self._readings: weakref.WeakSet[Reading] = weakref.WeakSet()
        self._context, self._function = _load(device, modules["step"], "step")
        if self._function.reflection.get("iree.abi.model") != "coarse-fences":
            fact = "its function 'step' takes no fences"
            raise ArtifactError("module 'step'", fact, hint="compile with --iree-execution-model=async-external")
        self._memory = Memory(device, signature, _subspan(device, modules) if signature.arenas else _no_subspan)
        self._memory.write(state)
        self._slots = [Slot(device, signature, self._memory) for _ in range(RUN_AHEAD)]
        _open_sessions.add(self)

    def issue(self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray]) -> tuple[int, list[Reading]]:
        """Queues one step and returns at once: its entry, and its outputs on their way to the host.

        Arrays fit `signature.controls` and `signature.batch`; they may be reused as soon as this returns. Waits only
        for the step before the previous one. Raises DmcError if an earlier step has failed, or this one at the start.
        """
        self._check()
        slot = self._slots[self._steps.last % RUN_AHEAD]
        self.wait(slot.entry)
        slot.fill(controls, batch, self._steps)
        results = iree.VmVariantList(self._signature.first_output + len(self._signature.outputs))
        try:
            self._context.invoke(self._function, slot.arguments, results)
        except IREE_ERRORS as error:
            raise self._failed(self._steps.last + 1, error) from error
        slot.entry = self._steps.advance()
        return slot.entry, self._outputs(results)

    def wait(self, entry: int) -> None:
        """Blocks until a step is done; raises DmcError if one has failed."""
        self._check()
        try:
            self._steps.wait(entry)
        except IREE_ERRORS as error:
            raise self._failed(entry, error) from error

    def is_done(self, entry: int) -> bool:
        """Whether a step is done; raises DmcError if one has failed."""
        self._check()
        try:
            return self._steps.is_reached(entry)
        except IREE_ERRORS as error:
            raise self._failed(entry, error) from error

    def fetch(self, reading: Reading, entry: int) -> np.ndarray:
        """An output of a step, after waiting for it; raises DmcError if the step or the copy has failed."""
        self.wait(entry)
        try:
            return reading.array()
        except IREE_ERRORS as error:
            raise self._failed(entry, error) from error

    def read_state(self, index: int) -> np.ndarray:
        """A host copy of one state tensor after all queued steps; raises DmcError if one has failed."""
        self._drain()
        return self._memory.read(index)

    def write_state(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrites the whole state, in place, after all queued steps; raises DmcError if one has failed."""
        self._drain()
        self._memory.write(arrays)

    def close(self) -> None:
        """Waits for what is queued, then frees everything on the device; may be called twice."""
        if self._closed:
            return
        self._closed = True
        # A failed step has been or will be reported by whoever waits for its loss; here it only means: nothing runs.
        with contextlib.suppress(*IREE_ERRORS):
            self._steps.wait(self._steps.last)
        for reading in tuple(self._readings):
            reading.release()
        self._slots.clear()
        del self._memory, self._function, self._context, self._steps
        self._device.release()

    def __del__(self) -> None:
        # An exception in the constructor leaves nothing to wait for.
        if hasattr(self, "_slots"):
            self.close()

    def _outputs(self, results: iree.VmVariantList) -> list[Reading]:
        outputs = self._signature.outputs
        readings = [
            self._reading(results, self._signature.first_output + index, spec) for index, spec in enumerate(outputs)
        ]
        self._readings.update(readings)
        return readings

    def _reading(self, results: iree.VmVariantList, index: int, spec: TensorSpec) -> Reading:
        return Reading(self._device, results.get_as_object(index, iree.HalBufferView), spec, after=self._steps)

    def _drain(self) -> None:
        self._check()
        self.wait(self._steps.last)

    def _check(self) -> None:
        if self._failure is not None:
            raise DmcError("step", self._failure, hint=_STALE)
        if self._closed:
            raise DmcError("step", "is closed", hint="load it again")

    def _failed(self, entry: int, error: BaseException) -> DmcError:
        self._failure = f"call {entry} failed on device {self._device.uri!r}: {first_line(error)}"
        return DmcError("step", self._failure, hint=_STALE)


def _load(device: Device, module: bytes, name: str) -> tuple[iree.VmContext, iree.VmFunction]:
    instance = iree.VmInstance()
    try:
        # The bytes of a file are not aligned as IREE needs them: let it copy.
        loaded = iree.VmModule.copy_buffer(instance, module)
        context = iree.VmContext(instance, modules=[iree.create_hal_module(instance, device=device.hal), loaded])
    except IREE_ERRORS as error:
        fact = f"cannot be loaded on device {device.uri!r} ({first_line(error)})"
        raise ArtifactError(f"module '{name}'", fact, hint="compile it for this machine") from error
    if name not in loaded.function_names:
        raise ArtifactError(f"module '{name}'", f"has no function '{name}'", hint="compile the step again")
    function = loaded.lookup_function(name)
    assert function is not None, "listed but not found"
    return context, function


def _subspan(device: Device, modules: Mapping[str, bytes]) -> Subspan:
    # IREE's Python bindings cannot make a part of a buffer; its virtual machine can.
    context, function = _load(device, modules["subspan"], "subspan")

    def subspan(buffer: iree.HalBuffer, offset: int, length: int) -> iree.HalBuffer:
        arguments, results = iree.VmVariantList(3), iree.VmVariantList(1)
        arguments.push_ref(buffer.ref)
        arguments.push_int(offset)
        arguments.push_int(length)
        context.invoke(function, arguments, results)
        return results.get_as_object(0, iree.HalBuffer)

    return subspan


def _no_subspan(buffer: iree.HalBuffer, offset: int, length: int) -> iree.HalBuffer:
    raise AssertionError("asked for a part of a buffer without arenas")


@atexit.register
def _close_all() -> None:
    # At exit Python frees objects in no particular order, and IREE crashes when a device goes before its buffers.
    for session in tuple(_open_sessions):
        session.close()
