"""A planned step of one rank on a GPU: its arenas, and the whole step as one CUDA graph, replayed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from dmc.errors import ArtifactError, DmcError
from dmc.program import Job, Slot, Space
from dmc.program.code import DeviceCode
from dmc.program.profile import Timed
from dmc.runtime.calls import RUN_AHEAD, Output
from dmc.runtime.cuda_streams import CudaStreams
from dmc.runtime.planned_memory import SHARED, Places, PlannedReading, Readings, typed
from dmc.runtime.progress import Progress
from dmc.runtime.replay import issue
from dmc.runtime.signature import Signature
from dmc.runtime.stamps import Stamps
from dmc.runtime.world.peers import Peers

_HOST: Space = "pinned_host"
_Work: TypeAlias = Callable[..., None]
# Steps that are queued to time one, and steps in which each command is timed.
_QUEUED, _ROUNDS = 10, 5
# Between two looks at a step that other ranks take part in.
_PAUSE_S = 2e-5


class ReplaySession:
    """A loaded planned step on one GPU, with the interface of `PlannedSession`.

    The device arena is allocated once, pinned host memory once per step in flight, so that the host fills that of the
    next step while one runs. For each the step is captured once as a graph; from then on a step is one graph launch,
    without allocations or host decisions.
    """

    def __init__(
        self,
        device: CudaStreams,
        signature: Signature,
        job: Job,
        code: DeviceCode,
        state: Sequence[np.ndarray],
        peers: Peers | None = None,
        is_captured: bool = True,
    ) -> None:
        """Allocates, writes `state` (one array per `signature.state`), meets the other ranks, and captures.

        signature: of this rank (`Ranks.linked`). peers: the other ranks; None for a job of one rank. is_captured:
        whether a step is one CUDA graph; if not, each step issues all its commands. Raises ArtifactError for a job that
        lacks tensors of the signature; DmcError where device memory is exhausted.
        """
        program = job.programs[0 if peers is None else peers.world.rank]
        places = Places([program])
        self._device, self._peers = device, peers
        self._closed, self._rank = False, program.rank
        self._last = 0
        self._state = _slots(places, signature.state, SHARED)
        self._inputs = _slots(places, (*signature.controls, *signature.batch), _HOST)
        self._outputs = _slots(places, signature.outputs, _HOST)
        device.prepare(len(program.lanes), code, None if peers is None else peers.open())
        self._arena = device.allocate(program.arenas[SHARED])
        self.write_state(state)
        self._flights: list[_Flight] = []
        self._capture: Callable[[Callable[[], None]], Callable[[], None]] = device.captured if is_captured else _as_is
        for _ in range(RUN_AHEAD):
            host = device.allocate_pinned(program.arenas[_HOST])
            bases: dict[Space, int] = {SHARED: self._arena.ptr, _HOST: host.ptr}
            work, progress = partial(issue, program, code, bases, device), None
            if peers is not None:
                progress = Progress(device, program)
                work = partial(work, mark=progress.mark)
            self._flights.append(_Flight(host, work, self._capture(work), progress))
        if peers is not None:
            peers.follow(self._unfinished)

    def issue(self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray]) -> tuple[int, list[PlannedReading]]:
        """Queues one step and returns at once: its entry, and its outputs. Waits only for the step before the previous
        one.

        Arrays match `signature.controls` and `signature.batch`; they may be reused as soon as this returns. Raises
        DmcError if the device fails.
        """
        self._check()
        if self._peers is not None:
            self._peers.begin(self._last + 1)
        flight = self._flights[self._last % len(self._flights)]
        self.wait(flight.entry)
        flight.let_go()
        for slot, array in zip(self._inputs, (*controls, *batch), strict=True):
            np.copyto(flight.tensor(slot), array)
        flight.launch()
        self._last += 1
        flight.entry, flight.done = self._last, self._device.record(0)
        return self._last, flight.readings(self._outputs)

    def wait(self, entry: int) -> None:
        """Blocks until a step is done; raises DmcError if the device fails."""
        self._check()
        for flight in self._flights:
            if flight.entry == entry and flight.done is not None:
                self._wait_for(flight.done)

    def is_done(self, entry: int) -> bool:
        """Whether a step is done; raises DmcError if the device fails."""
        self._check()
        events = [flight.done for flight in self._flights if flight.entry == entry and flight.done is not None]
        return all(map(self._device.is_past, events))

    def fetch(self, output: Output, entry: int) -> np.ndarray:
        """An output of a step, after waiting for it."""
        self.wait(entry)
        return output.array()

    def read_state(self, index: int) -> np.ndarray:
        """A host copy of one state tensor after all queued steps."""
        self._drain()
        slot = self._state[index]
        return typed(self._device.download(self._arena.ptr + slot.range.offset, slot.range.length), slot)

    @property
    def device_name(self) -> str:
        """The name of the GPU, as its driver reports it."""
        return self._device.name

    def timed(self) -> tuple[float, tuple[Timed, ...]]:
        """Nanoseconds of a step, and of each of its commands, by the device's clock. All ranks ask at the same time.

        Runs further steps on the last batch, which change the state. A step is one of several that are queued; its
        commands are timed in other steps, which the events between them prolong. Raises DmcError before the first step.
        """
        self._drain()
        if not self._last:
            raise DmcError("step", "has no batch yet on which it could be timed", hint="run it once")
        flight = self._flights[(self._last - 1) % len(self._flights)]
        self._again(flight.launch, _QUEUED)
        step = self._again(flight.launch, _QUEUED) / _QUEUED
        stamps = Stamps(self._device, self._rank)

        def work() -> None:
            stamps.begin()
            flight.work(stamp=stamps.stamp)

        stamped = self._capture(work)
        for _ in range(_ROUNDS):
            # A device that rested before is faster.
            self._again(flight.launch, _QUEUED, stamped)
            stamps.read()
        return step, stamps.commands()

    def _again(self, launch: Callable[[], None], times: int, *others: Callable[[], None]) -> float:
        """Nanoseconds of so many steps, and others, after one another."""
        begin = self._device.stamp(0)
        for each in (*repeat(launch, times), *others):
            self._last += 1
            if self._peers is not None:
                self._peers.begin(self._last)
            each()
        end = self._device.stamp(0)
        self._drain()
        return self._device.elapsed_ns(begin, end)

    def gathered(self, index: int) -> list[np.ndarray]:
        """What every rank holds of one state tensor after all queued steps; all ranks ask for it at the same time."""
        assert self._peers is not None, "a rank that runs alone holds all there is"
        self._drain()
        slot, ranks = self._state[index], self._peers.world.size
        length = slot.range.length
        room = self._device.allocate(ranks * length)
        source, stream = self._arena.ptr + slot.range.offset, self._device.main.ptr
        self._peers.everyone.all_gather(source, room.ptr, length, "i8", stream)
        self._drain()
        parts = self._device.download(room.ptr, ranks * length)
        return [typed(parts[rank * length : (rank + 1) * length], slot) for rank in range(ranks)]

    def write_state(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrites the whole state after all queued steps; raises DmcError if the device fails."""
        self._drain()
        for slot, array in zip(self._state, arrays, strict=True):
            self._device.upload(self._arena.ptr + slot.range.offset, np.ascontiguousarray(array).tobytes())

    def close(self) -> None:
        """Waits for queued work, then frees the memory; may be called twice."""
        if self._closed:
            return
        # A failed step is reported to whoever waits for its loss; here it only means that nothing is running.
        with contextlib.suppress(DmcError):
            self._drain()
        self._closed = True
        for flight in self._flights:
            flight.release()
        self._flights.clear()
        del self._arena

    def __del__(self) -> None:
        # An exception in the constructor leaves nothing to wait for.
        if hasattr(self, "_flights"):
            self.close()

    def _drain(self) -> None:
        self._check()
        if self._peers is None:
            self._device.drain()
        else:
            self._wait_for(self._device.record(0))

    def _wait_for(self, event: Any) -> None:
        """A rank that waits for others looks after them meanwhile: one that is gone never comes."""
        if self._peers is None:
            self._device.wait_for(event)
            return
        with self._peers.waiting():
            while not self._device.is_past(event):
                self._peers.check()
                time.sleep(_PAUSE_S)

    def _unfinished(self) -> tuple[int, int] | None:
        """The first step in flight, and its first movement between ranks, that have not ended; from any thread."""
        flights = sorted(self._flights, key=lambda flight: flight.entry)
        found = ((flight.entry, flight.unfinished()) for flight in flights if flight.entry)
        return next(((entry, place) for entry, place in found if place is not None), None)

    def _check(self) -> None:
        if self._closed:
            raise DmcError("step", "is closed", hint="load it again")


class _Flight:
    """The resources of one step in flight: its pinned memory, what issues and launches it, and its completion event."""

    def __init__(
        self, host: Any, work: Callable[..., None], run: Callable[[], None], progress: Progress | None
    ) -> None:
        self.work, self._run, self._progress = work, run, progress
        self.entry = 0
        self.done: Any = None
        self._memory = host
        self._bytes = np.frombuffer(host, np.uint8)
        self._readings = Readings()

    def tensor(self, slot: Slot) -> np.ndarray:
        """The memory of an input or an output."""
        return typed(self._bytes[slot.range.offset : slot.range.end], slot)

    def readings(self, slots: Sequence[Slot]) -> list[PlannedReading]:
        """The outputs, to be read when the step is done."""
        return self._readings.give(map(self.tensor, slots))

    def launch(self) -> None:
        """Queues the step."""
        if self._progress is not None:
            self._progress.reset()
        self._run()

    def unfinished(self) -> int | None:
        """See `Progress`."""
        progress = self._progress
        return None if progress is None else progress.unfinished()

    def let_go(self) -> None:
        """Before its memory is reused: copies out outputs that are still referenced."""
        self._readings.keep()

    def release(self) -> None:
        """Releases the memory; nothing is running any more."""
        self._readings.release()
        del self._bytes, self._memory, self._run, self.work
        # Another thread may be about to look at it.
        self._progress = None


def _as_is(work: Callable[[], None]) -> Callable[[], None]:
    return work


def _slots(places: Places, specs: Sequence[Any], space: Space) -> list[Slot]:
    slots = [slot for _, slot in places.of(specs)]
    for slot in slots:
        # An empty tensor has no place.
        if slot.range.length and slot.range.space != space:
            fact = f"has {slot.name!r} in {slot.range.space} memory, not in {space}"
            raise ArtifactError("the plan", fact, hint="compile the step again")
    return slots
