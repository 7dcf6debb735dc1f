"""Memory over the time of a step."""

from __future__ import annotations

from dmc.program import Buffer, Range
from dmc.simulator import simulate
from dmc.simulator.memory import memory_over_time
from tests.hand_made_jobs import Rank, job_of, round_machine


def _buffer(category: str, offset: int, length: int, first: int, last: int) -> Buffer:
    return Buffer(category, category, Range("device", offset, length), first, last)


def test_buffers_come_and_go() -> None:
    rank = Rank().launch(10).launch(20).record(0).launch(30)
    rank.buffers += [
        _buffer("parameter", 0, 100, 0, 3),
        _buffer("activation", 100, 40, 0, 1),
        _buffer("gradient", 140, 7, 1, 2),
        Buffer("x", "input", Range("pinned_host", 0, 5), 0, 0),
    ]
    played = simulate(job_of(rank), round_machine())
    profile = memory_over_time(played, 0)
    assert profile.categories == ("parameter", "activation", "gradient")
    assert [round(time, 9) for time in profile.times] == [0, 10, 30, 60]
    assert profile.live == ((100, 40, 0), (100, 40, 7), (100, 0, 0), (0, 0, 0))
    assert profile.peak == 147
    assert profile.at_peak == {"parameter": 100, "activation": 40, "gradient": 7}
    assert profile.arena == 1 << 30
    assert memory_over_time(played, 0, "pinned_host").peak == 5
    assert memory_over_time(played, 0, "host").peak == 0


def test_what_takes_the_place_of_another_is_not_counted_twice() -> None:
    rank = Rank().launch(10).launch(20).launch(30)
    rank.buffers += [_buffer("parameter", 0, 100, 0, 1), _buffer("optimizer", 0, 100, 1, 2)]
    profile = memory_over_time(simulate(job_of(rank), round_machine()), 0)
    assert profile.live == ((100, 0), (0, 100), (0, 0))
    assert profile.peak == 100
