"""What ranks of one host share, whichever of them cannot, fails, or never comes; each is a thread here."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dmc.errors import DmcError
from dmc.runtime.world import neighbours as neighbours_module
from dmc.runtime.world import shared_words
from dmc.runtime.world.neighbours import Neighbours, neighbours
from dmc.runtime.world.shared_words import SharedWords
from tests.peer_threads import LATE_S, Memory, word
from tests.unit.test_world_store import stores

RANKS = 4


def on_all(do: Any) -> list[Any]:
    with ThreadPoolExecutor(RANKS) as threads:
        return list(threads.map(do, range(RANKS)))


def _both(memories: Sequence[Memory]) -> list[Neighbours | None]:
    """Two ranks, of which each has three flags."""
    opened = stores(2)
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda rank: neighbours(opened[rank], memories[rank], 64, 3), range(2)))


@pytest.mark.parametrize("trouble", ["share", "open", "register", "unwanted"])
def test_if_one_rank_cannot_nobody_does(trouble: str) -> None:
    memories, opened = [Memory() for _ in range(RANKS)], stores(RANKS)
    memories[2].trouble = trouble
    found = on_all(lambda rank: neighbours(opened[rank], memories[rank], 4096, 8, (rank, trouble) != (2, "unwanted")))
    assert found == [None] * RANKS


def test_ranks_on_other_hosts_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    here, opened, memories = threading.local(), stores(3), [Memory() for _ in range(3)]
    monkeypatch.setattr(neighbours_module, "_host", lambda: here.name)

    def meet(rank: int) -> Neighbours | None:
        here.name = ("one", "one", "other")[rank]
        return neighbours(opened[rank], memories[rank], 64, 1)

    with ThreadPoolExecutor(3) as threads:
        first, second, third = threads.map(meet, range(3))
    assert first is not None and second is not None and third is None
    assert set(first.arenas) == set(second.arenas) == {0, 1}
    first.close()
    assert [memory.closed for memory in memories] == [2, 0, 1]
    second.close()


def test_a_rank_that_gives_up_waits_for_nobody() -> None:
    """However often its stream lowers its flags, which are its own alone."""
    memories = [Memory(), Memory()]
    own, other = _both(memories)
    assert own is not None and other is not None
    assert own.given_up() == []
    other.give_up()
    assert own.given_up() == other.given_up() == [1]
    for _ in range(3):
        # Nobody raises them: it does not wait for that.
        memories[1].meet([], [other.flag(1, number) for number in range(3)], 7)
    assert [word(own.flag(0, number)).value for number in range(3)] == [0, 0, 0]
    # What may still be queued needs it.
    other.close()
    assert memories[1].closed == 0
    own.close()


def test_words_are_raised_until_they_are_closed() -> None:
    path = shared_words.create(5)
    one, other = SharedWords(path), SharedWords(path)
    path.unlink()
    one.keep_raised(1, 3)
    end = time.monotonic() + LATE_S
    while [word(other.address + 4 * i).value for i in range(5)] != [0, 1, 1, 1, 0]:
        assert time.monotonic() < end
    one.close()
    other.close()


def test_no_file_is_left_where_a_rank_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_words, "_FOLDER", str(tmp_path))
    opened = stores(2)
    opened[0].exchange = _without_the_second(opened[0].exchange)
    with ThreadPoolExecutor(2) as threads:
        told = threads.submit(opened[1].exchange, "hosts", neighbours_module._host().encode())  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(DmcError, match="did not come"):
            neighbours(opened[0], Memory(), 64, 3)
        told.result()
    assert not list(tmp_path.iterdir())


def _without_the_second(exchange: Any) -> Any:
    def gone(name: str, mine: bytes) -> list[bytes]:
        if name == "memory":
            raise DmcError("rank 1", "did not come")
        return exchange(name, mine)

    return gone


@pytest.mark.parametrize("trouble", ["", "open"])
def test_no_file_of_flags_is_left(trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_words, "_FOLDER", str(tmp_path))
    memories = [Memory(), Memory()]
    memories[1].trouble = trouble
    assert all(_both(memories)) == (not trouble)
    assert not list(tmp_path.iterdir())


def test_no_file_is_left_where_a_host_has_no_memory_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(shared_words, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert _both([Memory(), Memory()]) == [None, None]
    assert not list(tmp_path.iterdir())
