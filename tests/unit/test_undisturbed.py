"""Signals that come while something must not be cut in two."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from dmc.runtime.process.undisturbed import Undisturbed, undisturbed

SIGNAL = signal.SIGUSR1


@pytest.fixture(autouse=True)
def handled() -> Iterator[list[str]]:
    """A handler that raises, and what it said before."""
    said: list[str] = []

    def handler(*_: object) -> None:
        said.append("handled")
        raise InterruptedError("mine")

    previous = signal.signal(SIGNAL, handler)
    yield said
    signal.signal(SIGNAL, previous)


def test_a_handler_waits_and_then_raises(handled: list[str]) -> None:
    done: list[str] = []

    def work() -> None:
        with undisturbed, undisturbed:
            signal.raise_signal(SIGNAL)
            done.extend(["half", *handled, "whole"])

    with pytest.raises(InterruptedError, match="mine"):
        work()
    assert done == ["half", "whole"]
    assert handled == ["handled"]


def test_outside_nothing_changes(handled: list[str]) -> None:
    before = signal.getsignal(SIGNAL)
    with undisturbed:
        assert signal.getsignal(SIGNAL) is not before
        assert undisturbed.handler_of(SIGNAL) is before
    assert signal.getsignal(SIGNAL) is before
    with pytest.raises(InterruptedError):
        signal.raise_signal(SIGNAL)


def test_an_error_inside_comes_out_too() -> None:
    def fail() -> None:
        with undisturbed:
            signal.raise_signal(SIGNAL)
            raise KeyError("own")

    with pytest.raises(InterruptedError) as caught:
        fail()
    assert isinstance(caught.value.__context__, KeyError)


def test_a_handler_that_sets_another_keeps_it() -> None:
    """As programs do for which the first Ctrl-C is a request, and the second the end."""
    signal.signal(SIGNAL, lambda *_: signal.signal(SIGNAL, signal.SIG_IGN))
    with undisturbed:
        signal.raise_signal(SIGNAL)
    assert signal.getsignal(SIGNAL) is signal.SIG_IGN
    with undisturbed:
        signal.raise_signal(SIGNAL)
    assert signal.getsignal(SIGNAL) is signal.SIG_IGN


def test_every_handler_runs_although_one_raises(handled: list[str]) -> None:
    def work() -> None:
        with undisturbed:
            signal.raise_signal(SIGNAL)
            signal.raise_signal(signal.SIGUSR2)

    previous = signal.signal(signal.SIGUSR2, lambda *_: handled.append("second"))
    try:
        with pytest.raises(InterruptedError):
            work()
    finally:
        signal.signal(signal.SIGUSR2, previous)
    assert handled == ["handled", "second"]


def test_a_signal_between_two_lines_of_it_is_not_lost(handled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever interrupts the way in leaves the handlers in their places, and the next use works."""
    own = Undisturbed()
    put_aside = own._put_aside  # pyright: ignore[reportPrivateUsage]

    def interrupted() -> None:
        put_aside()
        signal.raise_signal(SIGNAL)

    before = signal.getsignal(SIGNAL)
    monkeypatch.setattr(own, "_put_aside", interrupted)
    with pytest.raises(InterruptedError), own:
        raise AssertionError("not reached")
    monkeypatch.undo()
    assert signal.getsignal(SIGNAL) is before
    with pytest.raises(InterruptedError), own:
        signal.raise_signal(SIGNAL)
    assert handled == ["handled", "handled"]


def test_other_threads_run_no_handlers_and_set_none() -> None:
    def work() -> None:
        with undisturbed:
            seen.append(signal.getsignal(SIGNAL))

    seen, before = [], signal.getsignal(SIGNAL)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_process_forked_by_another_thread_meanwhile_hears_signals() -> None:
    codes: list[int] = []

    def fork() -> None:
        if not (pid := os.fork()):
            heard = 0
            try:
                with undisturbed:
                    pass
                signal.raise_signal(SIGNAL)
            except InterruptedError:
                heard = 1
            os._exit(heard)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    thread = threading.Thread(target=fork)
    with undisturbed:
        thread.start()
        thread.join()
    assert codes == [1]
