"""What one step in flight owns: its inputs, its fences and its argument list, all made once."""

from __future__ import annotations

from collections.abc import Sequence

import iree.runtime as iree
import numpy as np

from dmc.runtime.device import Device, InputTensor
from dmc.runtime.memory import Memory
from dmc.runtime.signature import Signature
from dmc.runtime.timeline import Timeline


class Slot:
    """The arguments of `step` for one call in flight: the shared state, this slot's controls and batch, the shared
    arenas, and this slot's fences.

    With hundreds of state tensors, filling an argument list costs more than a call may; here only contents change.
    A slot may be filled again once the step that was queued with it is done (`entry`).
    """

    def __init__(self, device: Device, signature: Signature, memory: Memory) -> None:
        self.entry = 0
        self._device = device
        self._controls = [InputTensor(device, spec) for spec in signature.controls]
        self._batch = [InputTensor(device, spec) for spec in signature.batch]
        self._held: list[bytes | None] = [None] * len(self._controls)
        self._wait = iree.HalFence(2)
        self._signal = iree.HalFence(1)
        tensors = [*memory.passed, *self._controls, *self._batch, *memory.arenas]
        self.arguments = iree.VmVariantList(len(tensors) + 2)
        for tensor in tensors:
            self.arguments.push_ref(tensor.view.ref)
        self.arguments.push_ref(self._wait.ref)
        self.arguments.push_ref(self._signal.ref)

    def fill(self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray], steps: Timeline) -> None:
        """Writes the inputs and sets the fences: behind all steps and uploads queued so far, signalling the next."""
        for tensor, array in zip(self._batch, batch, strict=True):
            tensor.stage(array)
        for index, array in enumerate(controls):
            self._set_control(index, array)
        steps.insert_last(self._wait)
        self._device.uploads.insert_last(self._wait)
        steps.insert_next(self._signal)

    def _set_control(self, index: int, array: np.ndarray) -> None:
        # Controls seldom change from step to step.
        content = array.tobytes()
        if self._held[index] == content:
            return
        self._controls[index].stage(array)
        self._held[index] = content
