"""Ranks that copy out of each other's memory, here threads, get what the interpreter delivers, whenever each comes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dmc.interpreter.movements import deliver
from dmc.program import Channel, Collective, CollectiveKind, Command, Job, Lane, Move, Program, Range
from dmc.runtime.world import direct
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.direct import DirectCopies, parts_of
from dmc.runtime.world.neighbours import Neighbours, neighbours
from tests.peer_threads import STREAM, Memory
from tests.unit.test_world_store import stores

RANKS, COUNT = 4, 24
GROUPS = ((2, 0, 1), (3,))
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "all_to_all", "broadcast", "permute")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small movements are copied, too."""
    monkeypatch.setattr(direct, "COPIED_BYTES", 1)


def _command(kind: CollectiveKind, rank: int, instance: int, buffer: int = 0) -> Collective:
    """Ranks hold what they move at places of their own, in one of several buffers."""
    group = GROUPS[0]
    results = {"all_gather": COUNT * len(group)}
    source = Range("device", 64 + 512 * rank + 64 * buffer, COUNT)
    target = Range("device", 2560 + 128 * rank, results.get(kind, COUNT))
    pairs = ((0, 1), (2, 0)) if kind == "permute" else ()
    peer = 1 if kind == "broadcast" else None
    return Collective(0, kind, "c", group, instance, "i8", COUNT, source, target, None, None, peer, pairs)


def _job(kinds: Sequence[CollectiveKind], buffers: Sequence[int] = ()) -> Job:
    """Before each movement, another lane fills its buffer."""

    def commands(rank: int) -> Iterator[Command]:
        for i, (kind, buffer) in enumerate(zip(kinds, buffers or [0] * len(kinds), strict=True)):
            command = _command(kind, rank, i, buffer)
            assert command.source is not None
            yield Move(1, replace(command.source, space="pinned_host"), command.source)
            yield command

    lanes = (Lane("c", "comm", "c"), Lane("in", "copy_in"))
    programs = [
        Program(rank, {"device": 4096}, lanes, (), tuple(commands(rank)) if rank in GROUPS[0] else ())
        for rank in range(RANKS)
    ]
    return Job.of({"a": RANKS}, (Channel("c", groups=GROUPS),), {}, tuple(programs))


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


def _differing(job: Job, seed: int) -> tuple[list[str], list[Memory]]:
    """The movements that do not give, in two steps, what the interpreter delivers; the ranks' memories."""
    draw = np.random.default_rng(seed)
    memories = [Memory(10 * seed + rank) for rank in range(RANKS)]
    arenas = [np.zeros(4096, np.int8) for _ in range(RANKS)]
    channels = _met(job, arenas, memories)
    moved = [each for each in job.programs[0].commands if isinstance(each, Collective)]
    given = draw.integers(-100, 100, (2, len(moved), RANKS, COUNT)).astype(np.int8)
    found: dict[tuple[int, int, int], Any] = {}

    def run(rank: int) -> None:
        for step, (place, command) in itertools.product(range(2), enumerate(job.programs[rank].commands)):
            channels[rank].before(place, STREAM)
            # As soon as one movement is done, the memory is used for the next.
            if isinstance(command, Move):
                arenas[rank][command.target.offset :][:COUNT] = given[step, place // 2, rank]
                continue
            assert isinstance(command, Collective) and command.target
            arenas[rank][command.target.offset :][: command.target.length] = 0
            channels[rank].move(command, 0, 0, STREAM)
            found[step, place // 2, rank] = arenas[rank][command.target.offset :][: command.target.length].copy()

    _on_all(run)
    wrong = list[str]()
    for step, (i, command) in itertools.product(range(2), enumerate(moved)):
        wanted = deliver(command, [given[step, i, rank] for rank in GROUPS[0]])
        for rank, each in zip(GROUPS[0], wanted, strict=True):
            wrong += [] if found[step, i, rank].tobytes() == each.tobytes() else [f"{command.kind} {i} on {rank}"]
    return wrong, memories


def _drawn(seed: int, buffers: int) -> Job:
    draw = np.random.default_rng(seed)
    return _job([KINDS[i] for i in draw.integers(0, len(KINDS), 40)], draw.integers(0, buffers, 40).tolist())


# Where a rank copies its own piece, and where a neighbour brings it back.
@pytest.mark.parametrize("brought", [0, COUNT])
@pytest.mark.parametrize(("seed", "buffers"), [(0, 1), (1, 2), (2, 3), (3, 6)])
def test_movements_are_those_of_the_interpreter(
    seed: int, buffers: int, brought: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "_BROUGHT_BYTES", brought)
    job = _drawn(seed, buffers)
    wrong, memories = _differing(job, seed)
    assert not wrong
    # Where the next movement fills the same buffer, and behind the last, ranks meet again.
    sources = [each.source for each in job.programs[0].commands if isinstance(each, Collective)]
    again = [one == other for one, other in itertools.pairwise(sources)] + [True]
    # What was brought back is told, if they do not meet again.
    kinds = [each.kind for each in job.programs[0].commands if isinstance(each, Collective)]
    told = [brought > 0 and kind == "all_gather" and not one for kind, one in zip(kinds, again, strict=True)]
    assert [each.met for each in memories] == [2 * (len(kinds) + sum(again) + sum(told))] * 3 + [0]
    # What fills a buffer of which ranks did not meet again waits until all have copied it.
    reused = [i for i, source in enumerate(sources) if source in sources[i + 1 :] and not again[i]]
    assert [each.waited for each in memories] == [2 * len(reused)] * 3 + [0]


def test_a_source_that_is_overwritten_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the meetings behind movements, ranks would get what is written next."""
    monkeypatch.setattr("dmc.runtime.world.meetings._is_overwritten", lambda *_: False)
    assert any(_differing(_drawn(seed, 1), seed)[0] for seed in range(3))


class _Streams(Memory):
    """Notes which stream copies from and to which address."""

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[tuple[Any, int, int]] = []

    def copy(self, target: int, source: int, length: int, stream: Any) -> None:
        self.copied.append((stream, target, source))
        super().copy(target, source, length, stream)


def test_what_others_give_comes_side_by_side_and_goes_back_behind_it() -> None:
    job, memories = _job(["all_gather"]), [_Streams() for _ in range(RANKS)]
    arenas = [np.zeros(4096, np.int8) for _ in range(RANKS)]
    channels = _met(job, arenas, memories)

    def run(rank: int) -> None:
        for each in job.programs[rank].commands:
            if isinstance(each, Collective):
                channels[rank].move(each, 0, 0, STREAM)

    _on_all(run)
    own = range(arenas[2].ctypes.data, arenas[2].ctypes.data + 4096)
    streams = [stream for stream, target, _ in memories[2].copied if target in own]
    (back,) = (stream for stream, target, _ in memories[2].copied if target not in own)
    assert len(streams) == len(set(streams)) == 2 and back == streams[0]


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
    programs = tuple(Program(rank, {}, (), (), (command,)) for rank in range(3))
    copies = DirectCopies(Job.of({"a": 3}, (), {}, programs), 0, [("c", command.ranks)], beside)
    assert copies.carries(command) == carried


def test_movements_of_two_channels_may_have_one_number() -> None:
    commands = [replace(_command("permute", rank, 4), channel=name) for rank in (0, 1) for name in ("c", "d")]
    programs = tuple(Program(rank, {}, (), (), tuple(commands[2 * rank :][:2])) for rank in (0, 1))
    parts = parts_of(Job.of({"a": 2}, (), {}, programs))
    assert parts(commands[0]) == {0: commands[0], 1: commands[2]}
    assert parts(commands[3]) == {0: commands[1], 1: commands[3]}


def test_movements_of_two_groups_of_a_channel_may_have_one_number() -> None:
    commands = [replace(_command("permute", rank, 4), ranks=(rank // 2 * 2, rank // 2 * 2 + 1)) for rank in range(4)]
    programs = tuple(Program(rank, {}, (), (), (command,)) for rank, command in enumerate(commands))
    parts = parts_of(Job.of({"a": 4}, (), {}, programs))
    assert parts(commands[1]) == {0: commands[0], 1: commands[1]}
    assert parts(commands[2]) == {2: commands[2], 3: commands[3]}
