"""A planned step in IREE's runtime: all ranks in one process, with state placed by the plan."""

from __future__ import annotations

from collections.abc import Sequence

import iree.runtime as iree
import numpy as np

from dmc.program import Job
from dmc.program.devices import device_count
from dmc.runtime.calls import RUN_AHEAD, Calls
from dmc.runtime.device import Device
from dmc.runtime.planned_memory import SHARED, Flight, Places, PlannedReading, arenas, tensor
from dmc.runtime.signature import Signature


class PlannedSession(Calls):
    """A loaded planned step of all ranks. On a CPU each lane of each rank is a device; on a GPU there is one lane.

    Each rank has one device arena, and its other arenas once per step in flight, so that the host fills those of the
    next step while one runs. All are allocated here; a step allocates nothing.
    """

    def __init__(
        self, device: Device, signature: Signature, job: Job, module: bytes, state: Sequence[np.ndarray]
    ) -> None:
        """Allocates the arenas, writes `state` (one array per `signature.state`) and loads `module`.

        signature: of all ranks (`Ranks.linked`). module: the executable of `job`. Raises ArtifactError if the module
        does not load or the job lacks tensors of the signature, DmcError if memory is exhausted.
        """
        self.signature = signature
        self._lanes = device.lanes(device_count(job) if device.kind == "cpu" else 1)
        super().__init__(device, module, self._lanes)
        places = Places(job.programs)
        self._state, self._controls = places.of(signature.state), places.of(signature.controls)
        self._batch, self._outputs = places.of(signature.batch), places.of(signature.outputs)
        self._memory = arenas(device, job, [SHARED])
        # State outside the device arenas is not duplicated, so the next step's inputs must wait.
        count = RUN_AHEAD if all(slot.range.space == SHARED for _, slot in self._state) else 1
        self._flights = [Flight(device, job, self._memory) for _ in range(count)]
        # The step after which the host last read device memory.
        self._seen = 0
        self._open()
        self.write_state(state)

    def issue(self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray]) -> tuple[int, list[PlannedReading]]:
        """Queues one step and returns at once: its entry, and its pending outputs.

        Arrays match `signature.controls` and `signature.batch`; they may be reused as soon as this returns. Waits only
        for the step before the previous one. Raises DmcError if an earlier step has failed, or this one fails at the
        start.
        """
        self._check()
        flight = self._flights[self._steps.last % len(self._flights)]
        self.wait(flight.entry)
        flight.let_go()
        flight.fill(self._controls, controls)
        flight.fill(self._batch, batch)
        flight.set_fences(self._steps)
        flight.entry = self._call(flight.arguments, iree.VmVariantList(0))
        return flight.entry, flight.readings(self._outputs)

    def read_state(self, index: int) -> np.ndarray:
        """A host copy of one state tensor after all queued steps; raises DmcError if one has failed."""
        self._look()
        rank, slot = self._state[index]
        return tensor(self._flights[0].memory, rank, slot).copy()

    def write_state(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrites the whole state, in place, after all queued steps; raises DmcError if one has failed."""
        self._drain()
        self._flights[0].fill(self._state, arrays)
        for arena in self._memory.values():
            arena.push()

    def memory(self) -> dict[tuple[int, str], np.ndarray]:
        """Copies of the arenas after all queued steps, by rank and space, for debugging."""
        self._look()
        return {where: arena.bytes.copy() for where, arena in self._flights[0].memory.items()}

    def _look(self) -> None:
        """Makes the results of all queued steps visible to the host."""
        self._drain()
        if self._seen != self._steps.last:
            for arena in self._memory.values():
                arena.pull()
        self._seen = self._steps.last

    def _release(self) -> None:
        for flight in self._flights:
            flight.release()
        self._flights.clear()
        self._memory.clear()
        self._lanes.clear()
