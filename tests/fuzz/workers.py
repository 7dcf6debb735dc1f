"""Processes that check programs, so that a crash or a hang is known as what one program did."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol

from tests.fuzz.check import Verdict, Way, check
from tests.fuzz.train import PLAIN, Mode

# Seconds for one request on a machine of its own. The first also imports everything.
PATIENCE: dict[Way, float] = {"interpreter": 30.0, "compiled": 180.0}
STARTING = 120.0
# The module that a process imports before it is asked anything.
PRELOAD = "tests.fuzz.check"
# Requests after which a process is renewed: compilers keep memory.
LIFETIME = 400


@dataclass(frozen=True)
class Request:
    """The source of a program to be checked."""

    text: str
    way: Way = "interpreter"
    mode: Mode = PLAIN

    @property
    def patience(self) -> float:
        """As `Task` says."""
        return PATIENCE[self.way]

    def verdict(self) -> Verdict:
        """As `Task` says."""
        return check(self.text, self.way, self.mode)


class Task(Protocol):
    """What a process is asked; it is sent to it."""

    @property
    def patience(self) -> float:
        """Seconds that it may take on a machine of its own."""
        ...

    def verdict(self) -> Verdict:
        """The answer."""
        ...


@dataclass
class Worker:
    """A process that answers one request after another; it is renewed when it dies."""

    preload: str = PRELOAD
    process: BaseProcess | None = None
    connection: Connection | None = None
    served: int = 0

    def check(self, request: Task) -> Verdict:
        """The verdict on a task, whatever happens to the process."""
        connection = self._ready()
        self.served += 1
        try:
            connection.send(request)
            if not connection.poll(patience := _patience(request)):
                self.close()
                return Verdict("hangs", f"no answer within {patience:.0f} s", "hangs")
            return connection.recv()
        except (EOFError, OSError):
            return self._died()

    def close(self) -> None:
        """Ends the process."""
        if self.process is not None and self.connection is not None:
            self.connection.close()
            self.process.kill()
            self.process.join()
        self.process, self.connection, self.served = None, None, 0

    def _died(self) -> Verdict:
        assert self.process is not None
        self.process.join()
        code = self.process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        self.close()
        return Verdict("crashes", f"the process dies: {how}", how)

    def _ready(self) -> Connection:
        if self.served >= LIFETIME:
            self.close()
        if self.connection is None:
            self._start()
        assert self.connection is not None
        return self.connection

    def _start(self) -> None:
        # Forked from a process that has imported everything, and has no threads yet.
        context = get_context("forkserver")
        context.set_forkserver_preload([self.preload])
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        if not self.connection.poll(STARTING):
            raise RuntimeError("a worker does not start")
        self.connection.recv()


def side_by_side(jobs: int, job: Callable[[int, Worker], None], preload: str = PRELOAD) -> None:
    """Runs `job` in so many threads, each with its number and a process of its own, and waits for all."""

    def run(number: int) -> None:
        with closing(Worker(preload)) as worker:
            job(number, worker)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _patience(request: Task) -> float:
    """Seconds for one request: on a machine that others use, too, a process gets its share of them."""
    return request.patience * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _serve(connection: Connection) -> None:
    """Answers requests until the other end is closed."""
    import torch

    torch.set_num_threads(1)
    # What compilers print before they crash adds nothing to the verdict.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    connection.send("ready")
    while True:
        try:
            request: Task = connection.recv()
        except EOFError:
            return
        connection.send(request.verdict())
