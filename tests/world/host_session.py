"""One rank of a job in a process without a GPU: numpy computes its kernels, the store carries its movements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dmc import dialect
from dmc._mlir import ir
from dmc.dtypes import Array
from dmc.interpreter import KernelFunction
from dmc.interpreter.bodies import kernels_of
from dmc.interpreter.memory import Memory
from dmc.interpreter.slots import INPUTS, OUTPUT
from dmc.program import Collective, Job, Launch, Move, Range
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.recorder import Recorder


class HostSession:
    """Issues the commands of a rank one after another, as they stand in its program."""

    def __init__(self, job: Job, kernels: Mapping[str, KernelFunction], recorder: Recorder, channels: Channels) -> None:
        self._job, self._program, self._kernels = job, recorder.program, kernels
        self._recorder, self._channels = recorder, channels
        # Bytes that were never written are noise.
        self._memory = Memory.of(self._program.arenas, np.random.default_rng(self._program.rank))

    def write(self, arrays: Sequence[tuple[str, Array]]) -> None:
        """Puts arrays into slots, by name: state or inputs."""
        slots = {slot.name: slot for slot in self._program.slots if slot.role != OUTPUT}
        for name, array in arrays:
            self._memory.write(slots[name].range, np.ascontiguousarray(array))

    def step(self, number: int, fault: Any) -> dict[str, Array]:
        """Takes a step; the outputs by name. `fault(place)` is called before each command."""
        self._recorder.begin(number)
        for place, command in enumerate(self._program.commands):
            self._recorder.reach(place)
            fault(place)
            self._issue(command)
        self._recorder.reach(None)
        return self._read(lambda role: role == OUTPUT)

    def state(self) -> dict[str, Array]:
        """Copies of this rank's parts of the state, by name."""
        return self._read(lambda role: role not in (OUTPUT, *INPUTS))

    def _read(self, is_meant: Any) -> dict[str, Array]:
        slots = [slot for slot in self._program.slots if is_meant(slot.role)]
        return {slot.name: self._memory.read(slot.range, slot.dtype, slot.shape) for slot in slots}

    def _issue(self, command: Any) -> None:
        match command:
            case Launch():
                types = zip(command.reads, self._job.kernels[command.kernel].reads, strict=True)
                operands = [self._memory.read(range_, type_.dtype, type_.shape) for range_, type_ in types]
                for target, result in zip(command.writes, self._kernels[command.kernel](operands), strict=True):
                    self._memory.write(target, result)
            case Move():
                self._memory.view(command.target)[:] = self._memory.view(command.source)
            case Collective():
                with self._recorder.waiting():
                    self._channels.move(command, self._address(command.source), self._address(command.target), None)
            case _:
                "An event; everything before it has ended."

    def _address(self, range_: Range | None) -> int:
        return 0 if range_ is None else self._memory.view(range_).ctypes.data


def kernels(artifact: Artifact) -> dict[str, KernelFunction]:
    """The kernels of a compiled step, as its last form has them."""
    with ir.Context() as context, ir.Location.unknown():
        dialect.load(context)
        return kernels_of(ir.Module.parse(artifact.ir[max(artifact.ir)]))
