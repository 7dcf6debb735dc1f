"""Failure detection: when a rank dies, stalls or raises, all ranks end with an error that names it."""

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

# Heartbeats per time-out, at most a second apart; how many a failed rank stays for, so that all others can read why;
# and after how many it is ended, whatever its main thread does.
_BEATS, _LINGER, _END = 20, 3, 6
# How many time-outs a step may take in which all ranks wait.
_STEP = 10


class _Heartbeat(msgspec.Struct, frozen=True):
    """number: distinguishes the heartbeats of a rank."""

    number: int
    position: Position


class _Failure(msgspec.Struct, frozen=True):
    """Why the job ends, as told to all ranks."""

    fact: str
    hint: str


class Watch:
    """Watches over one rank of a job, from its own threads.

    Every rank sends heartbeats and follows those of the next rank, in a ring. A rank that misses them, or waits in a
    step that the next rank does not reach, reports the failure to all ranks through the store. From then on `check`
    raises, and so does every wait in the store; `abort` is called, so that waits for the device end; and a process
    whose main thread does not end is ended. As a context manager it reports exceptions that leave its body.
    """

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        abort: Callable[[], None] = lambda: None,
        failed: Callable[[], str | None] = lambda: None,
        timeout_s: float = 30.0,
    ) -> None:
        """Starts the threads.

        abort: cancels the communication on the device. failed: an asynchronous error of the device, if there is one.
        timeout_s: within which all ranks have ended after one sends no heartbeat any more, or does not reach a step.
        """
        self._store, self._recorder, self._abort, self._failed = store, recorder, abort, failed
        self._period_s = min(1.0, timeout_s / _BEATS)
        # Leaves time to report and to end.
        self._limit_s = timeout_s - (2 + _END) * self._period_s
        # A process may load several steps, one after another.
        self._name = f"watch/{store.turn('watch')}"
        self._failure: DmcError | None = None
        self._lock = threading.Lock()
        self._failed_at = self._answered_at = self._heard_at = time.monotonic()
        self._heard: _Heartbeat | None = None
        self._beats = 0
        self._is_terminated = False
        self._closing = threading.Event()
        self._previous_hook = sys.excepthook
        sys.excepthook = self._on_exception
        self._terminations = Terminations()
        self._talker = threading.Thread(target=self._talk, name="dmc watch", daemon=True)
        self._guardian = threading.Thread(target=self._guard, name="dmc guard", daemon=True)
        # It may hang with the device.
        self._aborting = threading.Thread(target=self._abort, name="dmc abort", daemon=True)
        self._talker.start()
        self._guardian.start()
        atexit.register(self._at_exit)

    def check(self) -> None:
        """Raises DmcError if a rank of the job, this one or another, has failed."""
        if self._failure is not None:
            raise self._failure

    def close(self, error: BaseException | None = None) -> None:
        """Ends the watch: the rank is done or, with `error`, has failed, which is reported. May be called twice."""
        if self._closing.is_set():
            return
        if error is not None and self._failure is None:
            self._report(f"rank {self._store.world.rank} raised {_shown(error)}", "fix that rank's error")
        self._recorder.has_left = True
        self._closing.set()
        patience_s = self._limit_s if self._failure is None else _LINGER * self._period_s
        self._talker.join(patience_s)
        # Rank 0 does not wait for ranks that are dead or late.
        with contextlib.suppress(DmcError):
            self._store.leave(patience_s)
        if self._failure is None:
            self._unhook()
            self._guardian.join()
            self._terminations.close()

    def abandon(self) -> None:
        """In a forked process, which has none of the threads: it is silent, and may end as it likes."""
        self._closing = threading.Event()
        self._closing.set()
        self._unhook()

    def _unhook(self) -> None:
        atexit.unregister(self._at_exit)
        # Another step's watch may have put its own before this one.
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._previous_hook

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def _talk(self) -> None:
        """The thread that talks to the store, which may block."""
        try:
            while not self._closing.wait(self._period_s):
                self._round()
            self._send_heartbeat()
        except DmcError as error:
            self._fail(_Failure(error.fact, error.hint))

    def _round(self) -> None:
        self._send_heartbeat()
        if (report := self._store.peek(f"{self._name}/failure")) is not None:
            self._fail(msgspec.json.decode(report, type=_Failure))
        elif self._failure is None:
            self._check_next()
        self._answered_at = time.monotonic()

    def _send_heartbeat(self) -> None:
        self._beats += 1
        heartbeat = _Heartbeat(self._beats, self._recorder.position())
        self._store.set(f"{self._name}/{self._store.world.rank}", msgspec.json.encode(heartbeat))

    def _check_next(self) -> None:
        world = self._store.world
        next_ = (world.rank + 1) % world.size
        data, now = self._store.peek(f"{self._name}/{next_}"), time.monotonic()
        heartbeat = None if data is None else msgspec.json.decode(data, type=_Heartbeat)
        if heartbeat != self._heard:
            self._heard, self._heard_at = heartbeat, now
        if fact := self._own_fact() or self._fact_of(next_, now - self._heard_at):
            self._report(fact, f"see the output of the ranks and of {world.launcher}; resume from the last checkpoint")

    def _own_fact(self) -> str | None:
        """What is wrong with this rank, if anything."""
        fact, rank = self._failed(), self._store.world.rank
        if fact is not None:
            return f"communication failed on rank {rank}: {fact}"
        # Launchers terminate all ranks when one has died.
        return f"rank {rank} was terminated (SIGTERM)" if self._is_terminated else None

    def _fact_of(self, next_: int, silent_s: float) -> str | None:
        """What is wrong with the next rank, or with the step in which both are, if anything."""
        own, waits_s, limit = self._recorder.step, self._recorder.waits_for_s(), self._limit_s
        other = Position(0, False, False, "before its first step") if self._heard is None else self._heard.position
        if other.has_left:
            if waits_s > self._period_s and other.step < own:
                return f"rank {next_} ended after step {other.step}, and step {own} waits for it"
        elif silent_s > limit:
            return f"rank {next_} has sent no heartbeat for {silent_s:.1f} s; it was last seen {other.text}"
        elif waits_s > limit and other.step < own and not other.is_waiting:
            return f"rank {next_} has not reached step {own} for {waits_s:.1f} s; it is {other.text}"
        if waits_s > _STEP * limit:
            ended = f", and rank {next_} has ended" if other.has_left else ""
            return f"step {own} has not ended for {waits_s:.1f} s on rank {self._store.world.rank}{ended}"
        return None

    def _report(self, fact: str, hint: str) -> None:
        """Reports a failure to all ranks; the first report counts."""
        failure = _Failure(fact, hint)
        try:
            if self._store.add(f"{self._name}/failures", 1) == 1:
                self._store.set(f"{self._name}/failure", msgspec.json.encode(failure))
        except DmcError as error:
            failure = _Failure(f"{fact}; {error.fact}", hint)
        self._fail(failure)

    def _fail(self, failure: _Failure) -> None:
        here = f"this rank is {self._recorder.position().text} ({self._recorder.last_steps()})"
        error = DmcError(f"rank {self._store.world.rank}", f"{failure.fact}\n  {here}", failure.hint)
        with self._lock:
            if self._failure is not None:
                return
            # Who sees the failure may wait for it.
            self._aborting.start()
            self._failed_at, self._failure = time.monotonic(), error
        self._store.give_up(error)

    def _guard(self) -> None:
        """The thread that never blocks on others, and so can always end the process."""
        before = time.monotonic()
        while self._failure is not None or not self._closing.is_set():
            self._is_terminated = self._terminations.wait(self._period_s) or self._is_terminated
            now = time.monotonic()
            if now - before > self._limit_s / 2:
                # This process itself was stopped.
                self._answered_at = now
            before = now
            if now - self._answered_at > self._limit_s:
                fact = f"the store has not answered for {now - self._answered_at:.1f} s"
                self._fail(_Failure(fact, "its server, the launcher or rank 0, hangs: see its output"))
            if self._failure is not None and now - self._failed_at > _END * self._period_s:
                self._end()

    def _at_exit(self) -> None:
        """Ends the process of a failed rank with 1 while `abort` runs.

        A thread that comes back from a C++ library after Python has ended would abort the process. What Python has not
        written yet is lost, but for its standard streams.
        """
        self.close()
        if self._failure is None:
            return
        self._aborting.join(self._period_s)
        if self._aborting.is_alive():
            for stream in filter(None, (sys.stdout, sys.stderr)):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(1)

    def _end(self) -> None:
        """Ends the process at once; its main thread may hang."""
        if not self._closing.is_set():
            print(f"dmc: error: {self._failure}", file=sys.stderr, flush=True)
        os._exit(1)

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.close(error)
        if error is self._failure:
            # A traceback would only show where this rank waited.
            print(f"dmc: error: {error}", file=sys.stderr, flush=True)
        else:
            self._previous_hook(kind, error, trace)


def _shown(error: BaseException) -> str:
    """An exception with the place where it was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
    return f"{type(error).__name__}: {error}{place}"
