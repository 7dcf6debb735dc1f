"""What `dmc run` says of a training: its rate, its memory, slow batches, and ranks that others wait for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dmc.cli import pace as paces
from dmc.cli.pace import Pace, items_of, late_ranks, shown
from dmc.program import Program
from dmc.program.signature import TensorSpec
from dmc.runtime.world.recorder import Recorder


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds."""
    now = [100.0]
    monkeypatch.setattr(paces.time, "perf_counter", lambda: now[0])
    return now


def _train(clock: list[float], reading: float, steps: int, is_ready: bool) -> Pace:
    """A training whose steps take 10 ms after their batch was read."""
    pace, loss = Pace(2048, "tokens", 1_500_000_000), SimpleNamespace(is_ready=lambda: is_ready)

    def read() -> dict[str, np.ndarray]:
        clock[0] += reading
        return {}

    for number in range(steps):
        pace.read(read, loss if number else None)
        clock[0] += 0.01
        pace.known(1.0)
    return pace


def test_a_training_is_summed_up(clock: list[float]) -> None:
    pace = _train(clock, 0.0, 4, is_ready=False)
    assert pace.summary() == ["204,800 tokens/s, 1.50 GB of device memory per rank", "4 steps, 10.00 ms per step"]
    assert pace.line() == "10.00 ms per step, 204,800 tokens/s, 1.50 GB"
    # The first step is not one after another.
    assert pace.steps_ns == pytest.approx([1e7] * 3)


def test_batches_that_come_too_slowly_are_named(clock: list[float]) -> None:
    _, slow, _ = _train(clock, 0.03, 10, is_ready=True).summary()
    assert slow == (
        "batches come too slowly: the device waited for 9 of 10; reading one takes 30.00 ms of 40.00 ms per step"
    )
    for harmless in (_train(clock, 0.03, 10, is_ready=False), _train(clock, 0.001, 10, is_ready=True)):
        assert len(harmless.summary()) == 2


def test_a_training_without_steps_has_no_rate(clock: list[float]) -> None:
    assert Pace(1, "tokens", 1).summary() == ["0 steps, 0.00 ms per step"]


def test_tokens_are_integers_of_two_dimensions() -> None:
    assert items_of([TensorSpec("t", "i64", (4, 8))]) == (32, "tokens")
    assert items_of([TensorSpec("rate", "f32", ()), TensorSpec("x", "f32", (4, 8))]) == (4, "samples")
    assert items_of([TensorSpec("y", "i64", (4,))]) == (4, "samples")
    assert items_of([]) == (1, "batches")


def test_the_rank_that_others_wait_for_is_named() -> None:
    assert late_ranks([0.1, 0.1, 0.2, 0.1], 10.0) is None
    told = late_ranks([0.1, 0.2, 4.0, 0.3], 10.0)
    assert told == "the other ranks wait for rank 2: it was 4.00 s of 10.00 s between steps, the others 0.20 s"


def test_a_recorder_sums_what_a_rank_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 3.5, 10.0])
    monkeypatch.setattr("dmc.runtime.world.recorder.time.monotonic", lambda: next(times))
    recorder = Recorder(Program(0, {}, (), (), ()))
    for _ in range(2):
        with recorder.waiting():
            pass
    assert recorder.waited_s == 7.5


def test_lines_are_plain_in_a_pipe_and_have_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_quiet in (False, True):
        with shown(Pace(1, "tokens", 1), 2, is_quiet) as say:
            say(f"quiet: {is_quiet}")
    assert capsys.readouterr().out == "quiet: False\n"
    monkeypatch.setattr(paces.sys.stdout, "isatty", lambda: True)
    with shown(Pace(1, "tokens", 1_000_000), 2, is_quiet=False) as say:
        say("step [red]")
    printed = capsys.readouterr().out
    assert "step [red]" in printed
    assert "1/2" in printed
    assert "tokens/s, 1.00 MB" in printed
