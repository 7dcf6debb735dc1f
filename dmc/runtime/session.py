"""The state on the device and the steps in flight on it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence

import iree.runtime as iree
import numpy as np

from dmc.runtime.calls import RUN_AHEAD, Calls, load_function
from dmc.runtime.device import Device, Reading
from dmc.runtime.memory import Memory, Subspan
from dmc.runtime.signature import Signature, TensorSpec
from dmc.runtime.slot import Slot


class Session(Calls):
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
        super().__init__(device, modules["step"])
        self._signature = signature
        self._readings: weakref.WeakSet[Reading] = weakref.WeakSet()
        self._memory = Memory(device, signature, _subspan(device, modules) if signature.arenas else _no_subspan)
        self._memory.write(state)
        self._slots = [Slot(device, signature, self._memory) for _ in range(RUN_AHEAD)]
        self._open()

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
        slot.entry = self._call(slot.arguments, results)
        return slot.entry, self._outputs(results)

    def read_state(self, index: int) -> np.ndarray:
        """A host copy of one state tensor after all queued steps; raises DmcError if one has failed."""
        self._drain()
        return self._memory.read(index)

    def write_state(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrites the whole state, in place, after all queued steps; raises DmcError if one has failed."""
        self._drain()
        self._memory.write(arrays)

    def _release(self) -> None:
        for reading in tuple(self._readings):
            reading.release()
        self._slots.clear()
        del self._memory

    def _outputs(self, results: iree.VmVariantList) -> list[Reading]:
        outputs = self._signature.outputs
        readings = [
            self._reading(results, self._signature.first_output + index, spec) for index, spec in enumerate(outputs)
        ]
        self._readings.update(readings)
        return readings

    def _reading(self, results: iree.VmVariantList, index: int, spec: TensorSpec) -> Reading:
        return Reading(self._device, results.get_as_object(index, iree.HalBufferView), spec, after=self._steps)


def _subspan(device: Device, modules: Mapping[str, bytes]) -> Subspan:
    # IREE's Python bindings cannot make a part of a buffer; its virtual machine can.
    context, function = load_function(device, modules["subspan"], "subspan")

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
