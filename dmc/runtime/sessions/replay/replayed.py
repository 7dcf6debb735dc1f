"""A program as a GPU replays it: where its inputs and outputs are, and its calls in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from dmc.errors import ArtifactError
from dmc.program import ALIGNMENT, IN_FLIGHT, PINNED_HOST, STAGED, Slot, Space
from dmc.program.code import DeviceCode
from dmc.runtime.gpu.cuda_streams import CudaStreams
from dmc.runtime.sessions.executable import Executable
from dmc.runtime.sessions.iree.planned_memory import Places, PlannedReading, Readings, typed
from dmc.runtime.sessions.replay.issue import issue
from dmc.runtime.sessions.replay.progress import Progress
from dmc.runtime.sessions.replay.staging import Staging
from dmc.runtime.tensors.large_copies import copy_into

Work: TypeAlias = Callable[..., None]
# What makes of some work what launches it.
Capture: TypeAlias = Callable[[Work], Callable[[], None]]


class Replayed:
    """One program.

    program: of this rank.
    """

    def __init__(
        self,
        device: CudaStreams,
        own: Executable[DeviceCode],
        rank: int,
        shared: Mapping[Space, int],
        capture: Capture,
        has_peers: bool,
    ) -> None:
        """Allocates memory for inputs and outputs, and captures. shared: the addresses of the arenas of all programs.
        has_peers: whether others follow its progress."""
        self.program = program = own.job.program(rank)
        places, signature = Places([program]), own.signature
        inputs = slots_of(places, (*signature.controls, *signature.batch), STAGED, PINNED_HOST)
        outputs = slots_of(places, signature.outputs, PINNED_HOST)
        self.flights: list[Flight] = []
        self._calls = 0
        for _ in range(IN_FLIGHT):
            # A program whose outputs are all empty has none.
            host = device.allocate_pinned(program.arenas.get(PINNED_HOST, ALIGNMENT))
            staging = Staging(device, size) if (size := program.arenas.get(STAGED)) else None
            bases: dict[Space, int] = {**shared, PINNED_HOST: host.ptr}
            if staging is not None:
                bases[STAGED] = staging.address
            work, progress = partial(issue, program, own.code, bases, device), None
            if has_peers:
                progress = Progress(device, program)
                work = partial(work, mark=progress.mark)
            self.flights.append(Flight(host, staging, inputs, outputs, work, capture(work), progress))

    def next(self) -> Flight:
        """Those of the next call."""
        self._calls += 1
        return self.flights[(self._calls - 1) % len(self.flights)]


class Flight:
    """The resources of one step in flight: its memory, what issues and launches it, and its completion event.

    entry: the last step that used it; 0 before any. done: the event of that, which the next one takes over.
    """

    def __init__(
        self,
        host: Any,
        staging: Staging | None,
        inputs: Sequence[Slot],
        outputs: Sequence[Slot],
        work: Work,
        run: Callable[[], None],
        progress: Progress | None,
    ) -> None:
        """host: pinned memory. staging: None where inputs are there, too."""
        self.work, self._run, self._progress, self._staging = work, run, progress, staging
        self.entry = 0
        self.done: Any = None
        self._memory = host
        own = np.frombuffer(host, np.uint8)
        bytes_of = {STAGED: own if staging is None else staging.host}

        def tensor(slot: Slot) -> np.ndarray:
            memory = bytes_of.get(slot.range.space, own)
            return typed(memory[slot.range.offset : slot.range.end], slot)

        self._inputs, self._outputs = [*map(tensor, inputs)], [*map(tensor, outputs)]
        self._readings = Readings()

    def readings(self) -> list[PlannedReading]:
        """The outputs, to be read when the step is done."""
        return self._readings.give(self._outputs)

    def fill(self, arrays: Sequence[np.ndarray]) -> None:
        """Writes inputs, and sends them to the device; the last step that used this must be done."""
        for memory, array in zip(self._inputs, arrays, strict=True):
            copy_into(memory, array)
        if self._staging is not None:
            self._staging.send()

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
        del self._inputs, self._outputs, self._memory, self._staging, self._run, self.work
        # Another thread may be about to look at it.
        self._progress = None


def slots_of(places: Places, specs: Sequence[Any], *spaces: Space) -> list[Slot]:
    """The slots of tensors, all of which must be in one of these memories. Raises ArtifactError."""
    slots = [slot for _, slot in places.of(specs)]
    for slot in slots:
        # An empty tensor has no place.
        if slot.range.length and slot.range.space not in spaces:
            fact = f"has {slot.name!r} in {slot.range.space} memory, not in {' or '.join(spaces)}"
            raise ArtifactError("the plan", fact, hint="compile the step again")
    return slots
