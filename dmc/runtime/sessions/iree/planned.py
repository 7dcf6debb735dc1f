"""A planned step in IREE's runtime: all ranks in one process, with state placed by the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dmc.program import IN_FLIGHT, Job
from dmc.program.devices import device_count
from dmc.program.signature import Signature
from dmc.runtime.process.undisturbed import undisturbed
from dmc.runtime.sessions.executable import Executable
from dmc.runtime.sessions.iree.calls import Calls
from dmc.runtime.sessions.iree.device import Device
from dmc.runtime.sessions.iree.planned_memory import Arenas, Flight, Places, PlannedReading, shared_arenas, tensor


class PlannedSession(Calls):
    """A loaded planned step of all ranks. On a CPU each lane of each rank is a device; on a GPU there is one lane.

    Each rank has one device arena, and one of host memory where state waits there, which all programs share, and pinned
    memory once per call in flight, so that the host fills that of the next call while one runs. All are allocated here;
    a call allocates nothing.
    """

    def __init__(
        self,
        device: Device,
        signature: Signature,
        job: Job,
        module: bytes,
        state: Sequence[np.ndarray],
        others: Sequence[Executable[bytes]] = (),
    ) -> None:
        """Allocates the arenas, writes `state` (one array per `signature.state`) and loads `module`.

        signature: of all ranks (`Ranks.linked`). module: the executable of `job`. others: further programs over the
        same state, from number 1 on. Raises ArtifactError if a module does not load or a job lacks tensors of its
        signature, DmcError if memory is exhausted.
        """
        self.signature = signature
        programs = [Executable(signature, job, module), *others]
        counts = [device_count(each.job) if device.kind == "cpu" else 1 for each in programs]
        super().__init__(device)
        for each, count in zip(programs, counts, strict=True):
            self._load(each.code, device.lanes(count))
        self._state = Places(job.programs).of(signature.state)
        self._memory = shared_arenas(device, [each.job for each in programs])
        self._programs = [_Planned(device, each, self._memory) for each in programs]
        # The step after which the host last read the state.
        self._seen = 0
        self._open()
        self.write_state(state)

    def issue(
        self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray], program: int = 0
    ) -> tuple[int, list[PlannedReading]]:
        """Queues one call of a program and returns at once: its entry, and its pending outputs.

        Arrays match the program's signature; they may be reused as soon as this returns. Waits only for its call before
        the previous one. Raises DmcError if an earlier call has failed, or this one fails at the start.
        """
        with self.lock:
            self._check()
            own = self._programs[program]
            flight = own.next()
            self.wait(flight.entry)
            with undisturbed:
                # While this waited, a handler of a signal may have called the step, too.
                self.wait(flight.entry)
                flight.let_go()
                flight.fill(own.inputs, [*controls, *batch])
                flight.set_fences(self._steps)
                flight.entry = self._call(program, flight.arguments)
                return flight.entry, flight.readings(own.outputs)

    def read_state(self, index: int) -> np.ndarray:
        """A host copy of one state tensor after all queued steps; raises DmcError if one has failed."""
        with self.lock:
            self._look()
            rank, slot = self._state[index]
            return tensor(self._first().memory, rank, slot).copy()

    def write_state(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrites the whole state, in place, after all queued steps; raises DmcError if one has failed."""
        with self.lock:
            self._drain()
            with undisturbed:
                self.write_some(enumerate(arrays))

    def write_some(self, arrays: Iterable[tuple[int, np.ndarray]]) -> None:
        """Overwrites state tensors, one by one, after all queued steps; raises DmcError if one has failed."""
        with self.lock:
            self._look()
            for index, array in arrays:
                self._first().fill([self._state[index]], [array])
            for arena in self._memory.values():
                arena.push()

    def memory(self) -> dict[tuple[int, str], np.ndarray]:
        """Copies of the arenas after all queued steps, by rank and space, for debugging."""
        with self.lock:
            self._look()
            return {where: arena.bytes.copy() for where, arena in self._first().memory.items()}

    def _first(self) -> Flight:
        return self._programs[0].flights[0]

    def _look(self) -> None:
        """Makes the results of all queued steps visible to the host."""
        self._drain()
        if self._seen != self._steps.last:
            for arena in self._memory.values():
                arena.pull()
        self._seen = self._steps.last

    def _release(self) -> None:
        for flight in [flight for program in self._programs for flight in program.flights]:
            flight.release()
        self._programs.clear()
        self._memory.clear()
        super()._release()


class _Planned:
    """One program: where its inputs and outputs are, and its calls in flight."""

    def __init__(self, device: Device, program: Executable[bytes], memory: Arenas) -> None:
        places, signature = Places(program.job.programs), program.signature
        self.inputs = [*places.of(signature.controls), *places.of(signature.batch)]
        self.outputs = places.of(signature.outputs)
        self.flights = [Flight(device, program.job, memory) for _ in range(IN_FLIGHT)]
        self._calls = 0

    def next(self) -> Flight:
        """Those of the next call."""
        self._calls += 1
        return self.flights[(self._calls - 1) % len(self.flights)]
