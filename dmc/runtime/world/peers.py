"""A rank's connection to the others."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cached_property
from itertools import accumulate

from dmc.errors import DmcError
from dmc.program import Job
from dmc.runtime.process.settings import RunSettings
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.communicator import Communicator, Communicators
from dmc.runtime.world.launch import World
from dmc.runtime.world.neighbours import Memory, Neighbours, neighbours
from dmc.runtime.world.recorder import Recorder, Unfinished
from dmc.runtime.world.store import WRITING_S, Store
from dmc.runtime.world.watch import Watch

# How long a rank that ends waits for the others to end, too; and how long for the reason why another has given up.
_LEAVING_S, _TOLD_S, _PAUSE_S = 5.0, 3.0, 0.01


class Peers:
    """The world of this rank, the store of the rendezvous, the channels of its jobs, and the watch over all ranks."""

    def __init__(
        self, world: World, store: Store, communicators: Communicators, job: Job, settings: RunSettings
    ) -> None:
        """Starts the watch."""
        self.world, self.store = world, store
        self._communicators, self._patience_s = communicators, settings.patience_s
        self._is_direct = settings.is_direct
        self._neighbours: Neighbours | None = None
        self._channels: list[Channels] = []
        # What is to be released, once, by whoever comes first: this thread or the watch.
        self._made: list[Channels | Communicator] = []
        self._releasing = threading.Lock()
        self._recorder = Recorder(job.program(world.rank))
        self._watch = Watch(store, self._recorder, self._abort, self._failed, settings.patience_s)

    def open(self, job: Job) -> Channels:
        """Creates the channels of a job on this process's device; all ranks do so."""
        channels = Channels(job, self.world.rank, self._communicators)
        self._channels.append(channels)
        self._made.append(channels)
        return channels

    def share(self, memory: Memory, arena: int) -> None:
        """Lets the ranks of a host copy out of each other's arenas; all ranks do so, after they opened all jobs."""
        firsts = list(accumulate((channels.flags for channels in self._channels), initial=0))
        found = neighbours(self.store, memory, arena, firsts[-1], self._is_direct)
        self._neighbours = found
        for channels, first in zip(self._channels, firsts, strict=False):
            if found is not None:
                channels.connect(found, first)

    def leave(self) -> None:
        """Ends this rank's part in steps, of which nothing is queued: closes the memory of others, and waits until they
        have closed this rank's. If a rank has failed, something may be queued, and goes on without the others."""
        if self._recorder.has_left:
            return
        self._recorder.has_left = True
        try:
            self.check()
        except DmcError:
            self._give_up()
            return
        if self._neighbours is not None:
            self._neighbours.close()
        # Those that never come, it does not wait for.
        with contextlib.suppress(DmcError):
            self.store.barrier("the end of all steps", min(_LEAVING_S, self._patience_s))

    @cached_property
    def everyone(self) -> Communicator:
        """The communicator of all ranks, outside steps; all ranks request it at the same point."""
        with self.waiting():
            made = self._communicators.make(tuple(range(self.world.size)))
        self._made.append(made)
        return made

    def gather(self) -> None:
        """Before all ranks collect something outside steps. Raises DmcError that names those who do not."""
        self.store.barrier("a call that all ranks make (state_dict, snapshot, save, load_state_dict)", self._patience_s)

    def exchange(self, what: str, mine: bytes) -> list[bytes]:
        """What each rank gives; all ranks ask for it. Raises DmcError that names those who do not."""
        return self.store.exchange(f"{what}, which all ranks read", mine, self._patience_s)

    def together(self, do: Callable[[], None]) -> None:
        """Does something on all ranks at the same time. Raises on all of them where it fails on one."""
        self.gather()
        failure: OSError | DmcError | None = None
        try:
            do()
        except (OSError, DmcError) as error:
            failure = error
        told = self.store.exchange("together", str(failure or "").encode(), WRITING_S)
        if failure is not None:
            raise failure
        for rank, text in enumerate(told):
            if text:
                raise DmcError(f"rank {rank}", text.decode(), hint="see what it says")

    def on_first(self, write: Callable[[], None], take_part: Callable[[], object]) -> None:
        """Rank 0 writes, and all wait for it. Raises on all ranks if it cannot.

        take_part: collects for rank 0 what is left to be collected; called on all ranks, there after writing.
        """

        def do() -> None:
            try:
                if self.world.rank == 0:
                    write()
            finally:
                take_part()

        self.together(do)

    def begin(self, step: int) -> None:
        """Begins a step of this rank. Raises DmcError if a rank is gone."""
        self.check()
        self._recorder.begin(step)

    @property
    def waited_s(self) -> float:
        """How long this process has waited for steps, in seconds."""
        return self._recorder.waited_s

    def follow(self, unfinished: Callable[[], Unfinished | None]) -> None:
        """unfinished: tells what the device has not ended."""
        self._recorder.unfinished = unfinished

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Inside, this rank waits for work that involves others, and calls `check` from time to time."""
        with self._recorder.waiting():
            yield
        self.check()

    def check(self) -> None:
        """Raises DmcError if a rank, this one or another, has failed or is gone."""
        end = time.monotonic() + _TOLD_S
        self._watch.check()
        while self._neighbours is not None and (ranks := self._neighbours.given_up()):
            # The watch knows more, soon.
            if time.monotonic() > end:
                fact = "no longer waits for the others, and what it gives them is wrong"
                raise DmcError(f"rank {ranks[0]}", fact, hint="see the output of the ranks; resume from a checkpoint")
            time.sleep(_PAUSE_S)
            self._watch.check()

    def close(self, error: BaseException | None = None) -> None:
        """Ends this rank's part, which has nothing queued, or with `error` tells the others that it has failed; may be
        called twice.

        Communicators are released here, not when Python happens to collect them: NCCL's destructor waits until all
        ranks are in it, each of which may collect another communicator first.
        """
        if error is None:
            self.leave()
        self._watch.close(error)
        self._release()

    def abandon(self) -> None:
        """In a forked process: what this rank does is done by the other."""
        self._made = []
        self._watch.abandon()

    def _abort(self) -> None:
        self._give_up()
        self._release()

    def _give_up(self) -> None:
        if self._neighbours is not None:
            self._neighbours.give_up()

    def _release(self) -> None:
        """Releases the communicators, with whatever is queued on them."""
        with self._releasing:
            made, self._made = self._made, []
        for each in made:
            each.abort()

    def _failed(self) -> str | None:
        facts = (channels.failed() for channels in self._channels)
        return next((fact for fact in facts if fact is not None), None)
