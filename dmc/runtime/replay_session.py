"""A planned step of one rank on a GPU: its arenas, and the whole step as one CUDA graph, replayed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dmc.errors import ArtifactError, DmcError
from dmc.program import Job, Slot, Space
from dmc.program.code import DeviceCode
from dmc.runtime.calls import RUN_AHEAD, Output
from dmc.runtime.cuda_streams import CudaStreams
from dmc.runtime.planned_memory import SHARED, Places, PlannedReading, Readings, typed
from dmc.runtime.progress import Progress
from dmc.runtime.replay import issue
from dmc.runtime.signature import Signature
from dmc.runtime.variant import Executable
from dmc.runtime.world.peers import Peers
from dmc.runtime.world.recorder import Unfinished

_HOST: Space = "pinned_host"
# Between two looks at a step that other ranks take part in.
_PAUSE_S = 2e-5


class ReplaySession:
    """A loaded planned step on one GPU, with the interface of `PlannedSession`.

    The device arena, which all programs share, is allocated once, pinned host memory once per call in flight, so that
    the host fills that of the next call while one runs. For each the program is captured once as a graph; from then on
    a call is one graph launch, without allocations or host decisions. All programs begin and end on one stream, so
    calls run in order.
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
        others: Sequence[Executable[DeviceCode]] = (),
    ) -> None:
        """Allocates, writes `state` (one array per `signature.state`), meets the other ranks, and captures.

        signature: of this rank (`Ranks.linked`). peers: the other ranks; None for a job of one rank. is_captured:
        whether a call is one CUDA graph; if not, each call issues all its commands. others: further programs over the
        same state, from number 1 on. Raises ArtifactError for a job that lacks tensors of its signature; DmcError where
        device memory is exhausted.
        """
        rank = 0 if peers is None else peers.world.rank
        programs = [Executable(signature, job, code), *others]
        self._device, self._peers = device, peers
        self._closed = False
        self._last = 0
        self._state = _slots(Places([job.programs[rank]]), signature.state, SHARED)
        devices = [device]
        for number, each in enumerate(programs):
            devices += [device.beside()] if number else []
            channels = None if peers is None else peers.open(each.job)
            devices[-1].prepare(len(each.job.programs[rank].lanes), each.code, channels)
        self._arena = device.allocate(max(each.job.programs[rank].arenas[SHARED] for each in programs))
        self.write_state(state)
        self._programs: list[_Replayed] = []
        for own, each in zip(devices, programs, strict=True):
            self._programs.append(_Replayed(own, each, rank, self._arena.ptr, peers is not None, is_captured))
        if peers is not None:
            peers.follow(self._unfinished)

    def issue(
        self, controls: Sequence[np.ndarray], batch: Sequence[np.ndarray], program: int = 0
    ) -> tuple[int, list[PlannedReading]]:
        """Queues one call of a program and returns at once: its entry, and its outputs. Waits only for its call before
        the previous one.

        Arrays match the program's signature; they may be reused as soon as this returns. Raises DmcError if the device
        fails.
        """
        self._check()
        if self._peers is not None:
            self._peers.begin(self._last + 1)
        own = self._programs[program]
        flight = own.next()
        self.wait(flight.entry)
        flight.let_go()
        for slot, array in zip(own.inputs, (*controls, *batch), strict=True):
            np.copyto(flight.tensor(slot), array)
        flight.launch()
        self._last += 1
        flight.entry, flight.done = self._last, self._device.record(0)
        return self._last, flight.readings(own.outputs)

    def wait(self, entry: int) -> None:
        """Blocks until a step is done; raises DmcError if the device fails."""
        self._check()
        for flight in self._flights():
            if flight.entry == entry and flight.done is not None:
                self._wait_for(flight.done)

    def is_done(self, entry: int) -> bool:
        """Whether a step is done; raises DmcError if the device fails."""
        self._check()
        events = [flight.done for flight in self._flights() if flight.entry == entry and flight.done is not None]
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
        for flight in self._flights():
            flight.release()
        self._programs.clear()
        del self._arena

    def __del__(self) -> None:
        # An exception in the constructor leaves nothing to wait for.
        if hasattr(self, "_programs"):
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

    def _flights(self) -> list[_Flight]:
        return [flight for program in self._programs for flight in program.flights]

    def _unfinished(self) -> Unfinished | None:
        """Of the first call in flight that has not ended; from any thread."""
        pairs = [(flight, own.program) for own in self._programs for flight in own.flights if flight.entry]
        pairs.sort(key=lambda pair: pair[0].entry)
        found = ((flight.entry, flight.unfinished(), program) for flight, program in pairs)
        return next(((entry, place, program) for entry, place, program in found if place is not None), None)

    def _check(self) -> None:
        if self._closed:
            raise DmcError("step", "is closed", hint="load it again")


class _Replayed:
    """One program: where its inputs and outputs are, and its calls in flight."""

    def __init__(
        self,
        device: CudaStreams,
        own: Executable[DeviceCode],
        rank: int,
        arena: int,
        has_peers: bool,
        is_captured: bool,
    ) -> None:
        self.program = program = own.job.programs[rank]
        places, signature = Places([program]), own.signature
        self.inputs = _slots(places, (*signature.controls, *signature.batch), _HOST)
        self.outputs = _slots(places, signature.outputs, _HOST)
        self.flights: list[_Flight] = []
        self._calls = 0
        for _ in range(RUN_AHEAD):
            host = device.allocate_pinned(program.arenas[_HOST])
            bases: dict[Space, int] = {SHARED: arena, _HOST: host.ptr}
            work, progress = partial(issue, program, own.code, bases, device), None
            if has_peers:
                progress = Progress(device, program)
                work = partial(work, mark=progress.mark)
            self.flights.append(_Flight(host, device.captured(work) if is_captured else work, progress))

    def next(self) -> _Flight:
        """Those of the next call."""
        self._calls += 1
        return self.flights[(self._calls - 1) % len(self.flights)]


class _Flight:
    """The resources of one step in flight: its pinned memory, what launches it, and its completion event."""

    def __init__(self, host: Any, run: Callable[[], None], progress: Progress | None) -> None:
        self._run, self._progress = run, progress
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
        del self._bytes, self._memory, self._run
        # Another thread may be about to look at it.
        self._progress = None


def _slots(places: Places, specs: Sequence[Any], space: Space) -> list[Slot]:
    slots = [slot for _, slot in places.of(specs)]
    for slot in slots:
        # An empty tensor has no place.
        if slot.range.length and slot.range.space != space:
            fact = f"has {slot.name!r} in {slot.range.space} memory, not in {space}"
            raise ArtifactError("the plan", fact, hint="compile the step again")
    return slots
