"""A planned step of one rank on a GPU: its arenas, and the whole step as one CUDA graph, replayed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

from dmc.errors import DmcError
from dmc.program import DEVICE, HOST, KEPT, Job, Program, Slot, Space
from dmc.program.code import DeviceCode
from dmc.program.profile import Timed
from dmc.runtime.arrays import are_zeros, bytes_of
from dmc.runtime.calls import Output
from dmc.runtime.cuda_streams import CudaStreams
from dmc.runtime.planned_memory import Places, PlannedReading, typed
from dmc.runtime.replayed import Capture, Flight, Replayed, slots_of
from dmc.runtime.signature import Signature
from dmc.runtime.stamps import Stamps, own_ns
from dmc.runtime.variant import Executable
from dmc.runtime.world.peers import Peers
from dmc.runtime.world.recorder import Unfinished

# Steps that are queued to time one, and steps in which each command is timed.
_QUEUED, _ROUNDS = 10, 5
# Between two looks at a step that other ranks take part in.
_PAUSE_S = 2e-5


class ReplaySession:
    """A loaded planned step on one GPU, with the interface of `PlannedSession`.

    The device arena, and pinned host memory for state that waits there, which all programs share, are allocated once,
    memory for inputs and outputs once per call in flight, so that the host fills that of the next call, and its inputs
    are copied to the device, while one runs. For each the program is captured once as a graph; from then on a call is
    one copy and one graph launch, without allocations or host decisions. All programs begin and end on one stream, so
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
        self._closed, self._rank = False, rank
        self._last = 0
        self._state = slots_of(Places([job.programs[rank]]), signature.state, *KEPT)
        devices = [device]
        for number, each in enumerate(programs):
            devices += [device.beside()] if number else []
            channels = None if peers is None else peers.open(each.job)
            # The marks of a step of several ranks have a lane of their own.
            lanes = len(each.job.programs[rank].lanes) + (peers is not None)
            devices[-1].prepare(lanes, each.code, channels)
        self._shared = self._allocated([each.job.programs[rank] for each in programs])
        if peers is not None:
            peers.share(device.peer_memory(), self._shared[DEVICE].ptr)
        self.write_state(state)
        self._capture: Capture = device.captured if is_captured else _as_is
        self._programs: list[Replayed] = []
        bases: dict[Space, int] = {space: arena.ptr for space, arena in self._shared.items()}
        for own, each in zip(devices, programs, strict=True):
            self._programs.append(Replayed(own, each, rank, bases, self._capture, peers is not None))
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
        if flight.done is not None:
            self._wait_for(flight.done)
        flight.let_go()
        flight.fill((*controls, *batch))
        flight.launch()
        self._last += 1
        flight.entry, flight.done = self._last, self._device.record(0, flight.done)
        return self._last, flight.readings()

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
        return typed(self._read(slot), slot)

    @property
    def device_name(self) -> str:
        """The name of the GPU, as its driver reports it."""
        return self._device.name

    def timed(self) -> tuple[float, tuple[Timed, ...]]:
        """Nanoseconds of a step, and of each of its commands, by the device's clock. All ranks ask at the same time.

        Runs further steps on the last batches, which change the state. A step is one of several that are queued; its
        commands are timed in other steps, which the events between them prolong. Raises DmcError before so many steps
        as may be in flight.
        """
        self._drain()
        flights = self._programs[0].flights
        if not all(flight.entry for flight in flights):
            done = sum(bool(flight.entry) for flight in flights)
            fact = f"was run {done} times, and needs {len(flights)} batches to be timed"
            raise DmcError("step", fact, hint="run more steps")
        self._again(_QUEUED)
        step = self._again(_QUEUED) / _QUEUED
        stamps = Stamps(self._device, self._rank, own_ns(self._device, self._capture))

        def work() -> None:
            stamps.begin()
            flights[0].work(stamp=stamps.stamp)

        stamped = self._capture(work)
        for _ in range(_ROUNDS):
            # A device that rested before is faster.
            self._again(_QUEUED, stamped)
            stamps.read()
        return step, stamps.commands()

    def _again(self, times: int, *others: Callable[[], None]) -> float:
        """Nanoseconds of so many steps, and others, after one another."""
        launches = islice(cycle(flight.launch for flight in self._programs[0].flights), times)
        begin = self._device.stamp(0)
        for each in (*launches, *others):
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
        source, stream = self._shared[slot.range.space].ptr + slot.range.offset, self._device.main.ptr
        if slot.range.space == HOST:
            # What is gathered is in device memory: here it is this rank's part of the room.
            source = room.ptr + self._peers.world.rank * length
            self._device.upload(source, self._read(slot))
        self._peers.everyone.all_gather(source, room.ptr, length, "i8", stream)
        self._drain()
        parts = self._device.download(room.ptr, ranks * length)
        return [typed(parts[rank * length : (rank + 1) * length], slot) for rank in range(ranks)]

    def write_state(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrites the whole state after all queued steps; raises DmcError if the device fails."""
        self._drain()
        for slot, array in zip(self._state, arrays, strict=True):
            if not slot.range.length:
                continue
            if slot.range.space == HOST:
                self._in_host_memory(slot)[:] = 0 if are_zeros(array) else bytes_of(array)
                continue
            target = self._shared[DEVICE].ptr + slot.range.offset
            if are_zeros(array):
                self._device.fill(0, target, slot.range.length, b"\0")
            else:
                self._device.upload(target, bytes_of(array))

    def _allocated(self, programs: Sequence[Program]) -> dict[Space, Any]:
        """The arenas that all programs share, each as large as the largest needs it."""
        allocate: dict[Space, Any] = {DEVICE: self._device.allocate, HOST: self._device.allocate_pinned}
        sizes: dict[Space, int] = {space: max(each.arenas.get(space, 0) for each in programs) for space in KEPT}
        return {space: allocate[space](size) for space, size in sizes.items() if size}

    def _read(self, slot: Slot) -> np.ndarray:
        """A copy of the bytes of state; nothing may be using them."""
        if slot.range.space == HOST:
            return self._in_host_memory(slot).copy()
        read = self._device.download(self._shared[DEVICE].ptr + slot.range.offset, slot.range.length)
        if self._peers is not None:
            # A rank that has given up meanwhile does not wait any more before it writes here.
            self._peers.check()
        return read

    def _in_host_memory(self, slot: Slot) -> np.ndarray:
        """The bytes of state that waits there."""
        return np.frombuffer(self._shared[HOST], np.uint8)[slot.range.offset : slot.range.end]

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
        if self._peers is not None:
            self._peers.leave()
        self._shared.clear()

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

    def _flights(self) -> list[Flight]:
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


def _as_is(work: Callable[[], None]) -> Callable[[], None]:
    return work
