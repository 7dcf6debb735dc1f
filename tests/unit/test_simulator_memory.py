"""Memory over the time of a step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dmc.machine import machine
from dmc.program import Buffer, Range
from dmc.program.categories import CATEGORIES
from dmc.simulator import simulate
from dmc.simulator.memory import Profile, memory_over_time
from tests.hand_made_jobs import DP, Rank, job_of, round_machine
from tests.random_jobs import random_job


def _buffer(category: str, offset: int, length: int, first: int, last: int) -> Buffer:
    return Buffer(category, category, Range("device", offset, length), first, last)


def _at(*places: tuple[int, int]) -> list[Range]:
    return [Range("device", offset, length) for offset, length in places]


def _profile(rank: Rank, buffers: Sequence[Buffer]) -> Profile:
    rank.buffers += buffers
    return memory_over_time(simulate(job_of(rank), round_machine()), 0)


def test_buffers_come_and_go() -> None:
    rank = Rank().launch(10, places=_at((100, 40))).launch(20, places=_at((100, 1), (140, 7))).record(0).launch(30)
    rank.buffers += [
        _buffer("parameter", 0, 100, 0, 3),
        _buffer("activation", 100, 40, 0, 1),
        _buffer("gradient", 140, 7, 1, 2),
        Buffer("x", "input", Range("pinned_host", 0, 5), 0, 3),
    ]
    played = simulate(job_of(rank), round_machine())
    profile = memory_over_time(played, 0)
    assert profile.names == ("weights", "gradients", "activations")
    assert [round(time, 9) for time in profile.times] == [0, 10, 30, 60]
    assert profile.live == ((100, 0, 40), (100, 7, 40), (100, 0, 0), (0, 0, 0))
    assert profile.peak == 147
    assert profile.at_peak == {"weights": 100, "activations": 40, "gradients": 7}
    assert profile.arena == 1 << 30
    assert memory_over_time(played, 0, "pinned_host").peak == 5
    assert memory_over_time(played, 0, "host").peak == 0


def test_what_takes_the_place_of_another_is_not_counted_twice() -> None:
    """In place as a whole, as new state does, or in a part that is not read again."""
    rank = Rank().launch(10, places=_at((0, 100))).launch(20, places=_at((0, 100))).launch(30, places=_at((40, 20)))
    rank.launch(40, places=_at((0, 8), (60, 4)))
    found = [
        _buffer("parameter", 0, 100, 0, 1),
        _buffer("optimizer", 0, 100, 1, 3),
        _buffer("scratch", 40, 20, 2, 2),
    ]
    profile = _profile(rank, found)
    assert profile.live == ((100, 0, 0), (0, 100, 0), (0, 80, 20), (0, 80, 0), (0, 0, 0))
    assert profile.peak == 100


def test_a_buffer_lives_from_its_first_use_to_its_last() -> None:
    """Its movement goes on beside later kernels, and the first and last commands by number may use other buffers."""
    rank = Rank().launch(10, places=_at((8, 4))).launch(5, places=_at((0, 8))).launch(100, lane=DP, places=_at((0, 8)))
    rank.launch(5, places=_at((8, 4))).launch(1, places=_at((8, 4)))
    profile = _profile(rank, [_buffer("communication", 0, 8, 1, 3), _buffer("gradient", 8, 4, 2, 3)])
    assert dict(zip(profile.times, profile.live, strict=True)) == {0: (0, 8), 15: (4, 8), 20: (0, 8), 100: (0, 0)}


@pytest.mark.parametrize("seed", range(8))
def test_a_peak_is_within_the_arena(seed: int) -> None:
    played = simulate(random_job(seed), machine("h200x4"))
    for rank in played.programs:
        profile = memory_over_time(played, rank)
        assert 0 < profile.peak <= profile.arena
        assert set(profile.at_peak) <= {*CATEGORIES.values()}
        assert profile.live[-1] == (0,) * len(profile.categories)
