"""Ranks that copy out of each other's memory, here threads, get what the interpreter delivers, whenever each comes."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dmc.errors import DmcError
from dmc.interpreter.movements import deliver
from dmc.program import Channel, Collective, CollectiveKind, Job, Lane, Program, Range
from dmc.runtime.world import direct, shared_words
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.direct import DirectCopies, Neighbours, neighbours, parts_of
from dmc.runtime.world.shared_words import SharedWords
from tests.unit.test_world_store import stores

RANKS, COUNT = 4, 24
GROUPS = ((2, 0, 1), (3,))
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "all_to_all", "broadcast", "permute")
LATE_S = 10.0
STREAM, SIDE = 7, 8


class Memory:
    """Threads for GPUs: their memory is that of the process. A stream does at once what it is asked, but the one beside
    it only when they join."""

    def __init__(self, seed: int = 0) -> None:
        self.trouble, self.closed, self.registered = "", 0, (0, 0)
        self._draw = random.Random(seed)
        self._beside: list[tuple[int, int, int]] = []

    def register(self, pointer: int, length: int) -> int:
        if self.trouble == "register":
            raise DmcError("the device", "cannot reach memory")
        self.registered = pointer, length
        return pointer

    def unregister(self, pointer: int) -> None:
        assert self.registered[0] == pointer
        self.closed += 1

    def share(self, pointer: int) -> bytes:
        if self.trouble == "share":
            raise DmcError("the device", "cannot share memory")
        return str(pointer).encode()

    def open(self, handle: bytes) -> int:
        if self.trouble == "open":
            raise DmcError("the device", "cannot open memory")
        return int(handle)

    def close(self, pointer: int) -> None:
        self.closed += 1

    def copy(self, target: int, source: int, length: int, stream: Any) -> None:
        self._pause()
        if stream == SIDE:
            self._beside.append((target, source, length))
        else:
            ctypes.memmove(target, source, length)

    def fork(self, stream: Any) -> Any:
        assert stream == STREAM and not self._beside
        return SIDE

    def join(self, stream: Any) -> None:
        for each in self._beside:
            ctypes.memmove(*each)
        self._beside.clear()

    def meet(self, raised: Sequence[int], awaited: Sequence[int], stream: Any) -> None:
        self._pause()
        for each in map(_word, raised):
            assert each.value == 0, "a flag is raised twice"
            each.value = 1
        end = time.monotonic() + LATE_S
        for each in map(_word, awaited):
            while each.value != 1:
                assert time.monotonic() < end, "a flag is never raised"
                time.sleep(0)
            each.value = 0

    def _pause(self) -> None:
        time.sleep(self._draw.choice([0, 0, 0, 1e-4, 1e-3]))


def _word(address: int) -> Any:
    return ctypes.c_int32.from_address(address)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small movements are copied, too."""
    monkeypatch.setattr(direct, "COPIED_BYTES", 1)


def _command(kind: CollectiveKind, rank: int, instance: int) -> Collective:
    """Ranks hold what they move at places of their own."""
    group = GROUPS[0]
    results = {"all_gather": COUNT * len(group)}
    source = Range("device", 64 + 512 * rank, COUNT)
    target = Range("device", 2560 + 128 * rank, results.get(kind, COUNT))
    pairs = ((0, 1), (2, 0)) if kind == "permute" else ()
    peer = 1 if kind == "broadcast" else None
    return Collective(0, kind, "c", group, instance, "i8", COUNT, source, target, None, None, peer, pairs)


def _job(kinds: Sequence[CollectiveKind]) -> Job:
    programs = [
        Program(
            rank,
            {"device": 4096},
            (Lane("c", "comm", "c"),),
            (),
            tuple(_command(kind, rank, i) for i, kind in enumerate(kinds)) if rank in GROUPS[0] else (),
        )
        for rank in range(RANKS)
    ]
    return Job({"a": RANKS}, (Channel("c", groups=GROUPS),), {}, tuple(programs))


class _None:
    """No other way to move."""

    def make(self, group: tuple[int, ...]) -> Any:
        return None


def _on_all(do: Any) -> list[Any]:
    with ThreadPoolExecutor(RANKS) as threads:
        return list(threads.map(do, range(RANKS)))


def _met(job: Job, arenas: Sequence[Any], memories: Sequence[Memory]) -> list[Channels]:
    opened = stores(RANKS)
    channels = [Channels(job, rank, _None()) for rank in range(RANKS)]

    def connect(rank: int) -> None:
        own = channels[rank]
        found = neighbours(opened[rank], memories[rank], arenas[rank].ctypes.data, own.flags)
        assert found is not None
        own.connect(found)

    _on_all(connect)
    return channels


@pytest.mark.parametrize("seed", range(4))
def test_movements_are_those_of_the_interpreter(seed: int) -> None:
    draw = np.random.default_rng(seed)
    kinds: list[CollectiveKind] = [KINDS[i] for i in draw.integers(0, len(KINDS), 40)]
    job, memories = _job(kinds), [Memory(10 * seed + rank) for rank in range(RANKS)]
    arenas = [np.zeros(4096, np.int8) for _ in range(RANKS)]
    channels = _met(job, arenas, memories)
    given = draw.integers(-100, 100, (len(kinds), RANKS, COUNT)).astype(np.int8)
    found: dict[tuple[int, int], Any] = {}

    def run(rank: int) -> None:
        for i, command in enumerate(job.programs[rank].commands):
            assert isinstance(command, Collective) and command.source and command.target
            # As soon as one movement is done, the memory is used for the next.
            arenas[rank][command.source.offset :][:COUNT] = given[i, rank]
            arenas[rank][command.target.offset :][: command.target.length] = 0
            channels[rank].move(command, 0, 0, STREAM)
            found[i, rank] = arenas[rank][command.target.offset :][: command.target.length].copy()

    _on_all(run)
    for i, kind in enumerate(kinds):
        wanted = deliver(_command(kind, 0, i), [given[i, rank] for rank in GROUPS[0]])
        for rank, each in zip(GROUPS[0], wanted, strict=True):
            assert found[i, rank].tobytes() == each.tobytes(), (kind, rank)


@pytest.mark.parametrize(
    ("more", "carried"),
    [
        ({}, True),
        ({"kind": "all_reduce"}, False),
        ({"kind": "send"}, False),
        ({"ranks": (2,)}, False),
        ({"ranks": (2, 0, 5)}, False),
        ({"source": Range("pinned_host", 64, COUNT)}, False),
        ({"target": Range("host", 64, COUNT)}, False),
        ({"source": Range("device", 64, COUNT - 1), "target": Range("device", 0, COUNT - 1)}, False),
        ({"source": Range("device", 64, COUNT - 1)}, True),
    ],
)
def test_what_is_copied(more: dict[str, Any], carried: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Movements without a reduction, from a size on, in device memory, between neighbours."""
    monkeypatch.setattr(direct, "COPIED_BYTES", COUNT)
    command = replace(_command("permute", 0, 0), **more)
    beside = Neighbours(Memory(), 0, 1)
    beside.arenas = {0: 0, 1: 0, 2: 0}
    copies = DirectCopies(0, [("c", GROUPS[0])], lambda each: dict.fromkeys(each.ranks, each), beside)
    assert copies.carries(command) == carried


def test_movements_of_two_channels_may_have_one_number() -> None:
    commands = [replace(_command("permute", rank, 4), channel=name) for rank in (0, 1) for name in ("c", "d")]
    programs = tuple(Program(rank, {}, (), (), tuple(commands[2 * rank :][:2])) for rank in (0, 1))
    parts = parts_of(Job({"a": 2}, (), {}, programs))
    assert parts(commands[0]) == {0: commands[0], 1: commands[2]}
    assert parts(commands[3]) == {0: commands[1], 1: commands[3]}


@pytest.mark.parametrize("trouble", ["share", "open", "register", "unwanted"])
def test_if_one_rank_cannot_nobody_does(trouble: str) -> None:
    memories, opened = [Memory() for _ in range(RANKS)], stores(RANKS)
    memories[2].trouble = trouble
    found = _on_all(lambda rank: neighbours(opened[rank], memories[rank], 4096, 8, (rank, trouble) != (2, "unwanted")))
    assert found == [None] * RANKS


def test_ranks_on_other_hosts_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    here, opened, memories = threading.local(), stores(3), [Memory() for _ in range(3)]
    monkeypatch.setattr(direct, "_host", lambda: here.name)

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
    opened, memories = stores(2), [Memory(), Memory()]
    with ThreadPoolExecutor(2) as threads:
        own, other = threads.map(lambda rank: neighbours(opened[rank], memories[rank], 64, 3), range(2))
    assert own is not None and other is not None
    assert own.given_up() == []
    other.give_up()
    assert own.given_up() == other.given_up() == [1]
    for _ in range(3):
        # Nobody raises them: it does not wait for that.
        memories[1].meet([], [other.flag(1, number) for number in range(3)], 7)
    assert [_word(own.flag(0, number)).value for number in range(3)] == [0, 0, 0]
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
    while [_word(other.address + 4 * i).value for i in range(5)] != [0, 1, 1, 1, 0]:
        assert time.monotonic() < end
    one.close()
    other.close()


def test_no_file_is_left_where_a_rank_does_not_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_words, "_FOLDER", str(tmp_path))
    opened = stores(2)
    opened[0].exchange = _without_the_second(opened[0].exchange)
    with ThreadPoolExecutor(2) as threads:
        told = threads.submit(opened[1].exchange, "hosts", direct._host().encode())  # pyright: ignore[reportPrivateUsage]
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


def test_no_file_of_flags_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_words, "_FOLDER", str(tmp_path))
    for trouble in ("", "open"):
        opened, memories = stores(2), [Memory(), Memory()]
        memories[1].trouble = trouble
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(lambda rank: neighbours(opened[rank], memories[rank], 64, 3), range(2)))  # noqa: B023
        assert all(found) == (not trouble)
        assert not list(tmp_path.iterdir())
