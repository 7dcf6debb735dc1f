"""A planned step of one rank on a GPU: its arenas, and the whole step as one CUDA graph, replayed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np

from dmc.errors import DmcError
from dmc.program import DEVICE, KEPT, Job
from dmc.program.code import DeviceCode
from dmc.program.profile import Timed
from dmc.program.signature import Signature, TensorSpec
from dmc.runtime.gpu.cuda_streams import CudaStreams
from dmc.runtime.process.undisturbed import undisturbed
from dmc.runtime.sessions.executable import Executable
from dmc.runtime.sessions.iree.planned_memory import Places, PlannedReading
from dmc.runtime.sessions.queue import Output
from dmc.runtime.sessions.replay.replayed import Capture, Flight, Replayed, slots_of
from dmc.runtime.sessions.replay.stamps import Stamps, own_ns
from dmc.runtime.sessions.replay.state import ReplayState
from dmc.runtime.sessions.session import Session
from dmc.runtime.world.peers import Peers
from dmc.runtime.world.recorder import Unfinished

# Steps that are queued to time one, and steps in which each command is timed.
_QUEUED, _ROUNDS = 10, 5
# Between two looks at a step that other ranks take part in.
_PAUSE_S = 2e-5


class ReplaySession(Session):
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
        super().__init__()
        rank = 0 if peers is None else peers.world.rank
        programs = [Executable(signature, job, code), *others]
        self._device, self._peers = device, peers
        self._rank, self._last = rank, 0
        self._programs: list[Replayed] = []
        slots = slots_of(Places([job.program(rank)]), signature.state, *KEPT)
        devices = [device]
        for number, each in enumerate(programs):
            devices += [device.beside()] if number else []
            channels = None if peers is None else peers.open(each.job)
            # The marks of a step of several ranks have a lane of their own.
            lanes = len(each.job.program(rank).lanes) + (peers is not None)
            devices[-1].prepare(lanes, each.code, channels)
        self._state = ReplayState(device, slots, [each.job.program(rank) for each in programs])
        self._open()
        bases = self._state.addresses
        if peers is not None:
            peers.share(device.peer_memory(), bases[DEVICE])
        self.write_state(state)
        self._capture: Capture = device.captured if is_captured else _as_is
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
        with self.lock:
            self._check()
            if self._peers is not None:
                self._peers.begin(self._last + 1)
            flight = self._programs[program].next()
            if flight.done is not None:
                self._wait_for(flight.done)
            with undisturbed:
                # While this waited, a handler of a signal may have called the step, too.
                if flight.done is not None and not self._device.is_past(flight.done):
                    self._wait_for(flight.done)
                flight.let_go()
                flight.fill((*controls, *batch))
                flight.launch()
                self._last += 1
                flight.entry, flight.done = self._last, self._device.record(0, flight.done)
                return self._last, flight.readings()

    def wait(self, entry: int) -> None:
        """Blocks until a step is done; raises DmcError if the device fails."""
        for event in self._events_of(entry):
            self._wait_for(event)

    def is_done(self, entry: int) -> bool:
        """Whether a step is done; raises DmcError if the device fails."""
        return all(map(self._device.is_past, self._events_of(entry)))

    def _events_of(self, entry: int) -> list[Any]:
        """What is signalled when a step is done."""
        with self.lock:
            self._check()
            return [flight.done for flight in self._flights() if flight.entry == entry and flight.done is not None]

    def fetch(self, output: Output, entry: int) -> np.ndarray:
        """An output of a step, after waiting for it."""
        self.wait(entry)
        with self.lock:
            self._check()
            return output.array()

    def read_state(self, index: int) -> np.ndarray:
        """A host copy of one state tensor after all queued steps."""
        with self.lock:
            self._drain()
            found = self._state.read(index)
            if self._peers is not None:
                # A rank that has given up meanwhile does not wait any more before it writes here.
                self._peers.check()
            return found

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
        with self.lock, undisturbed:
            return self._timed()

    def _timed(self) -> tuple[float, tuple[Timed, ...]]:
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

    def gathered(self, index: int, part: TensorSpec, ranks: Sequence[int]) -> list[np.ndarray]:
        """What these ranks hold of one state tensor after all queued steps, each a part like `part`; all ranks ask for
        it at the same time."""
        assert self._peers is not None, "a rank that runs alone holds all there is"
        with self.lock:
            self._drain()
            everyone, own = self._peers.everyone, self._peers.world.rank
            room = self._state.room(index, part, ranks.index(own) if own in ranks else None, len(ranks))
            with everyone.group():
                for place, rank in enumerate(ranks):
                    target = room.target + place * room.length
                    everyone.broadcast(room.source, target, room.length, "i8", rank, self._device.main.ptr)
            self._drain()
            return room.parts()

    def write_state(self, arrays: Sequence[np.ndarray]) -> None:
        """Overwrites the whole state after all queued steps; raises DmcError if the device fails."""
        with self.lock:
            self._drain()
            with undisturbed:
                self.write_some(enumerate(arrays))

    def write_some(self, arrays: Iterable[tuple[int, np.ndarray]]) -> None:
        """Overwrites state tensors, one by one, after all queued steps; raises DmcError if the device fails."""
        with self.lock:
            self._drain()
            for index, array in arrays:
                self._state.write(index, array)

    def _end(self) -> None:
        with contextlib.suppress(DmcError):
            self._drain()

    def _release(self) -> None:
        for flight in self._flights():
            flight.release()
        self._programs.clear()
        if self._peers is not None:
            self._peers.leave()
        self._state.arenas.clear()

    def abandon(self) -> None:
        super().abandon()
        if self._peers is not None:
            self._peers.abandon()

    def _drain(self) -> None:
        self._check()
        if self._peers is None:
            self._device.drain()
        else:
            self._wait_for(self._device.record(0))

    def _wait_for(self, event: Any) -> None:
        """Checks while waiting that the other ranks are alive: a dead rank raises instead of hanging."""
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
        super()._check()
        self._device.use()


def _as_is(work: Callable[[], None]) -> Callable[[], None]:
    return work
