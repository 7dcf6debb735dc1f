"""Notices that a rank has died, stalls or has raised, and ends this one with an error that says so."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

import msgspec

from dmc.errors import DmcError
from dmc.runtime.world.recorder import Position, Recorder
from dmc.runtime.world.signals import Terminations
from dmc.runtime.world.store import Store

# In the time after which a rank is given up: signs of life, which are at most a second apart; those that whoever
# learns of a failure stays for, so that all do; and those after which it ends, whatever its main thread does.
_BEATS, _LINGER, _END = 20, 3, 6
# How long a step may take, all ranks being in it, in that time.
_STEP = 10


class _Pulse(msgspec.Struct, frozen=True):
    """A sign of life: no two of a rank are equal."""

    beat: int
    position: Position


class _Failure(msgspec.Struct, frozen=True):
    """Why the job ends; the same on all ranks."""

    fact: str
    hint: str


class Watch:
    """Looks after one rank of a job, from a thread of its own.

    Each rank gives a sign of life, and follows that of the next one, in a ring. Whoever misses it, or waits in a step
    that the next rank does not come to, tells all ranks through the store. From then on `check` raises, and so does
    whoever waits in the store; `abort` is called, so that nobody waits for a device; and a rank whose main thread does
    not end is ended. Used as a context, it tells the others of an exception that leaves it.
    """

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        abort: Callable[[], None] = lambda: None,
        failed: Callable[[], str | None] = lambda: None,
        timeout_s: float = 30.0,
    ) -> None:
        """Begins to watch.

        abort: lets go of whatever waits for other ranks on a device. failed: what the device says has gone wrong.
        timeout_s: in which all ranks have ended after one gives no sign of life any more, or does not come to a step.
        """
        self._store, self._recorder, self._abort, self._failed = store, recorder, abort, failed
        self._period_s = min(1.0, timeout_s / _BEATS)
        # What is noticed by then is told and done with in time.
        self._limit_s = timeout_s - (2 + _END) * self._period_s
        # A process may train one step after another.
        self._name = f"watch/{store.turn('watch')}"
        self._failure: DmcError | None = None
        self._lock = threading.Lock()
        self._failed_at = self._answered_at = self._heard_at = time.monotonic()
        self._heard: _Pulse | None = None
        self._beat = 0
        self._is_terminated = False
        self._closing = threading.Event()
        self._previous_hook = sys.excepthook
        sys.excepthook = self._on_exception
        self._terminations = Terminations()
        self._talker = threading.Thread(target=self._talk, name="dmc watch", daemon=True)
        self._guardian = threading.Thread(target=self._guard, name="dmc guard", daemon=True)
        self._talker.start()
        self._guardian.start()
        atexit.register(self.close)

    def check(self) -> None:
        """Raises DmcError where a rank of the job, this one or another, has failed."""
        if self._failure is not None:
            raise self._failure

    def close(self, error: BaseException | None = None) -> None:
        """The rank is done; with `error`, it could not go on, which all others are told. May be called twice."""
        if self._closing.is_set():
            return
        if error is not None and self._failure is None:
            self._tell(f"rank {self._store.world.rank} has raised {_shown(error)}", "mend it there")
        self._recorder.has_left = True
        self._closing.set()
        patience_s = self._limit_s if self._failure is None else _LINGER * self._period_s
        self._talker.join(patience_s)
        # Whoever is late, or dead, finds nobody to ask: rank 0 does not wait for ever.
        with contextlib.suppress(DmcError):
            self._store.leave(patience_s)
        sys.excepthook = self._previous_hook
        atexit.unregister(self.close)
        if self._failure is None:
            self._guardian.join()
            self._terminations.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def _talk(self) -> None:
        """The thread that asks the store, which may be slow to answer, or silent."""
        try:
            while not self._closing.wait(self._period_s):
                self._round()
            self._beat_once()
        except DmcError as error:
            self._fail(_Failure(error.fact, error.hint))

    def _round(self) -> None:
        self._beat_once()
        if (told := self._store.peek(f"{self._name}/failure")) is not None:
            self._fail(msgspec.json.decode(told, type=_Failure))
        elif self._failure is None:
            self._look_after_next()
        self._answered_at = time.monotonic()

    def _beat_once(self) -> None:
        self._beat += 1
        pulse = _Pulse(self._beat, self._recorder.position())
        self._store.set(f"{self._name}/{self._store.world.rank}", msgspec.json.encode(pulse))

    def _look_after_next(self) -> None:
        world = self._store.world
        next_ = (world.rank + 1) % world.size
        data, now = self._store.peek(f"{self._name}/{next_}"), time.monotonic()
        pulse = None if data is None else msgspec.json.decode(data, type=_Pulse)
        if pulse != self._heard:
            self._heard, self._heard_at = pulse, now
        if fact := self._own_fact() or self._fact_of(next_, now - self._heard_at):
            self._tell(fact, f"see what ranks and {world.launcher} printed; resume from the last checkpoint")

    def _own_fact(self) -> str | None:
        """What is wrong with this rank."""
        fact, rank = self._failed(), self._store.world.rank
        if fact is not None:
            return f"rank {rank} has lost the others: {fact}"
        # A launcher ends all ranks when one has died.
        return f"rank {rank} was told to end (SIGTERM)" if self._is_terminated else None

    def _fact_of(self, next_: int, silent_s: float) -> str | None:
        """What is wrong with the next rank, or with the step in which both are."""
        own, waits_s, limit = self._recorder.step, self._recorder.waits_for_s(), self._limit_s
        other = Position(0, False, False, "before its first step") if self._heard is None else self._heard.position
        if other.has_left:
            is_missed = waits_s > self._period_s and other.step < own
            return f"rank {next_} has ended after step {other.step}; step {own} waits for it" if is_missed else None
        if silent_s > limit:
            return f"rank {next_} has given no sign of life for {silent_s:.1f} s; it was last seen {other.text}"
        if waits_s > limit and other.step < own and not other.is_waiting:
            return f"rank {next_} has not come to step {own} for {waits_s:.1f} s; it stands {other.text}"
        if waits_s > _STEP * limit:
            return f"step {own} has not ended for {waits_s:.1f} s on rank {self._store.world.rank}"
        return None

    def _tell(self, fact: str, hint: str) -> None:
        """Ends the job: the first to say so says why."""
        failure = _Failure(fact, hint)
        try:
            if self._store.add(f"{self._name}/failures", 1) == 1:
                self._store.set(f"{self._name}/failure", msgspec.json.encode(failure))
        except DmcError as error:
            failure = _Failure(f"{fact}; {error.fact}", hint)
        self._fail(failure)

    def _fail(self, failure: _Failure) -> None:
        here = f"this rank stands {self._recorder.position().text} ({self._recorder.last_steps()})"
        error = DmcError(f"rank {self._store.world.rank}", f"{failure.fact}\n  {here}", failure.hint)
        with self._lock:
            if self._failure is not None:
                return
            self._failed_at, self._failure = time.monotonic(), error
        self._store.give_up(error)
        # On a thread of its own: a device that hangs may hang in this, too.
        threading.Thread(target=self._abort, name="dmc abort", daemon=True).start()

    def _guard(self) -> None:
        """The thread that never asks anybody, and so can end the process whatever happens."""
        before = time.monotonic()
        while self._failure is not None or not self._closing.is_set():
            self._is_terminated = self._terminations.wait(self._period_s) or self._is_terminated
            now = time.monotonic()
            if now - before > self._limit_s / 2:
                # It is this process that was stopped, and the store is asked anew.
                self._answered_at = now
            before = now
            if now - self._answered_at > self._limit_s:
                fact = f"the store has not answered for {now - self._answered_at:.1f} s"
                self._fail(_Failure(fact, "whoever keeps it, the launcher or rank 0, hangs: see what it printed"))
            if self._failure is not None and now - self._failed_at > _END * self._period_s:
                self._end()

    def _end(self) -> None:
        """Ends the process at once, without asking the main thread, which may wait for ever."""
        if not self._closing.is_set():
            print(f"dmc: error: {self._failure}", file=sys.stderr, flush=True)
        os._exit(1)

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.close(error)
        self._previous_hook(kind, error, trace)


def _shown(error: BaseException) -> str:
    """An exception, and where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    return f"{type(error).__name__}: {error}{place}"
