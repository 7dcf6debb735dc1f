"""Movements between the GPUs of one host by their copy engines: each rank copies what it receives out of the others'
arenas.

A copy engine takes neither multiprocessors nor much power from the kernels beside it, which NCCL's kernels do. What
adds values is left to NCCL (`dm-exchange-sums` makes most sums out of movements), and so are small movements, whose
latency is lower there, and movements between hosts.

A movement has four parts, all on the stream of its lane: each member tells the others that its source is ready, and
waits for theirs; copies; tells that it has copied, and waits until all have. So a source is not written before it is
read, nor a target read before it is written. A flag is raised by one rank, awaited and lowered by another, and raised
again only after that rank has told the next thing: a flag is never raised twice. What a rank keeps it copies meanwhile.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from dmc.errors import DmcError
from dmc.program import COPIED, COPIED_BYTES, DEVICE, Collective, Job, Range
from dmc.runtime.world.shared_words import WORD_BYTES, SharedWords, create
from dmc.runtime.world.store import Store

_BOOT = Path("/proc/sys/kernel/random/boot_id")
# The meetings of a movement.
_READY, _DONE = 0, 1
_MEETINGS = 2

# A channel's name and the ranks of one of its groups.
Group: TypeAlias = tuple[str, tuple[int, ...]]
# The part of each member in a movement, by rank.
Parts: TypeAlias = Callable[[Collective], Mapping[int, Collective]]


class Memory(Protocol):
    """See `dmc.runtime.peer_memory.PeerMemory`."""

    def register(self, pointer: int, length: int) -> int: ...
    def unregister(self, pointer: int) -> None: ...
    def share(self, pointer: int) -> bytes: ...
    def open(self, handle: bytes) -> int: ...
    def close(self, pointer: int) -> None: ...
    def copy(self, target: int, source: int, length: int, stream: Any) -> None: ...
    def fork(self, stream: Any) -> Any: ...
    def join(self, stream: Any) -> None: ...
    def meet(self, raised: Sequence[int], awaited: Sequence[int], stream: Any) -> None: ...


class _Offer(msgspec.Struct, frozen=True):
    """What a rank shares: its host, its arena, and the file of its host's flags, if it is the first there."""

    host: str
    arena: bytes = b""
    flags: str = ""
    trouble: str = ""


class Neighbours:
    """The ranks on this host, this one included, whose memory this process can copy from.

    arenas: addresses, by rank. Each rank has `count` flags, and a word that says that it has given up, behind those of
    the rank before it.
    """

    def __init__(self, memory: Memory, rank: int, count: int) -> None:
        self.memory, self.arenas = memory, dict[int, int]()
        self._rank, self._count = rank, count
        self._words: SharedWords | None = None
        self._flags = 0
        # This thread closes, the watch gives up: whoever is first.
        self._ending, self._is_over = threading.Lock(), False

    def open(self, offers: Mapping[int, _Offer], arena: int) -> None:
        """Opens what ranks of this host share. Raises DmcError where it cannot."""
        self.arenas[self._rank] = arena
        for rank, each in offers.items():
            if rank != self._rank:
                self.arenas[rank] = self.memory.open(each.arena)
        self.arenas = dict(sorted(self.arenas.items()))
        path = next(each.flags for each in offers.values() if each.flags)
        try:
            self._words = SharedWords(Path(path))
        except OSError as error:
            raise DmcError(f"rank {self._rank}", f"cannot share flags with others ({error})") from error
        self._flags = self.memory.register(self._words.address, self._words.bytes)

    def flag(self, rank: int, number: int) -> int:
        """The address of a flag of a rank."""
        return self._flags + WORD_BYTES * (self._first(rank) + number)

    def give_up(self) -> None:
        """Lets queued work go on without the others; everything stays open until the process ends."""
        with self._ending:
            if self._is_over or self._words is None:
                return
            self._is_over = True
            # The others learn it before they see what this rank's work, which waits for nothing now, tells them.
            self._words[self._first(self._rank) + self._count] = 1
            self._words.keep_raised(self._first(self._rank), self._count)

    def given_up(self) -> list[int]:
        """The ranks whose work goes on without the others: what it gives them is wrong."""
        words = self._words
        return [] if words is None else [each for each in self.arenas if words[self._first(each) + self._count]]

    def close(self) -> None:
        """Closes the memory of the others; nothing may be queued, unless this rank has given up."""
        with self._ending:
            if self._is_over:
                return
            self._is_over = True
            for rank, arena in self.arenas.items():
                if rank != self._rank:
                    self.memory.close(arena)
            if self._flags and self._words is not None:
                self.memory.unregister(self._words.address)
                self._words.close()

    def _first(self, rank: int) -> int:
        return list(self.arenas).index(rank) * (self._count + 1)


def neighbours(store: Store, memory: Memory, arena: int, count: int, is_wanted: bool = True) -> Neighbours | None:
    """Shares this rank's arena with the ranks on this host, and opens theirs; all ranks call this.

    count: of flags that the movements of all jobs need. None where a rank does not want it, cannot share its memory or
    open another's, or is alone on its host: then NCCL moves everything. Raises DmcError where a rank does not come.
    """
    rank, host = store.world.rank, _host()
    hosts = [each.decode() for each in store.exchange("hosts", host.encode())]
    beside = [other for other, name in enumerate(hosts) if name == host]
    offer = _Offer(host, trouble="is not wanted")
    if is_wanted:
        offer = _offer(memory, arena, host, (count + 1) * len(beside) if rank == beside[0] else 0)
    found, is_agreed = Neighbours(memory, rank, count), False
    try:
        given = store.exchange("memory", msgspec.msgpack.encode(offer))
        offers = [msgspec.msgpack.decode(each, type=_Offer) for each in given]
        trouble = next((each.trouble for each in offers if each.trouble), "")
        try:
            if not trouble:
                found.open({other: offers[other] for other in beside}, arena)
        except DmcError as error:
            trouble = str(error)
        is_agreed = not any(store.exchange("opened", trouble.encode())) and len(beside) > 1
    finally:
        if offer.flags:
            Path(offer.flags).unlink()
        if not is_agreed:
            found.close()
    return found if is_agreed else None


def _offer(memory: Memory, arena: int, host: str, words: int) -> _Offer:
    """words: of the file of flags that this rank makes for its host; 0: another one does."""
    try:
        return _Offer(host, memory.share(arena), str(create(words)) if words else "")
    except (DmcError, OSError) as error:
        return _Offer(host, trouble=str(error))


def parts_of(job: Job) -> Parts:
    """The parts of the members in each movement of a job."""
    found: dict[tuple[int, Group], dict[int, Collective]] = {}
    for program in job.programs:
        for command in program.commands:
            if isinstance(command, Collective):
                found.setdefault(_movement(command), {})[program.rank] = command
    return lambda command: found[_movement(command)]


def _movement(command: Collective) -> tuple[int, Group]:
    """The same for all members, and for no other movement."""
    return command.instance, (command.channel, command.ranks)


class DirectCopies:
    """The movements of one job between neighbours."""

    def __init__(
        self,
        rank: int,
        groups: Sequence[Group],
        parts: Parts,
        neighbours: Neighbours,
        first: int = 0,
    ) -> None:
        """groups: of all ranks, with their channels, in declared order. first: the job's first flag."""
        self._rank, self._parts, self._neighbours = rank, parts, neighbours
        begins = accumulate((_MEETINGS * len(ranks) for _, ranks in groups), initial=first)
        self._first = dict(zip(groups, begins, strict=False))

    @staticmethod
    def flags(groups: Sequence[Group]) -> int:
        """How many flags a rank needs for these groups: for each meeting one for each member."""
        return sum(_MEETINGS * len(ranks) for _, ranks in groups)

    def carries(self, command: Collective) -> bool:
        """Whether a movement is made this way; all its members answer the same."""
        reached = self._neighbours.arenas.keys() >= set(command.ranks)
        if command.kind not in COPIED or len(command.ranks) == 1 or not reached:
            return False
        ranges = [each for part in self._parts(command).values() for each in (part.source, part.target) if each]
        return all(each.space == DEVICE for each in ranges) and max(each.length for each in ranges) >= COPIED_BYTES

    def move(self, command: Collective, stream: Any) -> None:
        """Queues this rank's part."""
        memory, copies = self._neighbours.memory, list(_copies(command, self._parts(command), self._rank))
        kept = [each for each in copies if each.giver == self._rank]
        if kept:
            self._copy(kept, memory.fork(stream))
        self._meet(command, _READY, stream)
        self._copy([each for each in copies if each.giver != self._rank], stream)
        if kept:
            memory.join(stream)
        self._meet(command, _DONE, stream)

    def _copy(self, copies: Sequence[_Copy], stream: Any) -> None:
        arenas = self._neighbours.arenas
        for each in copies:
            source = arenas[each.giver] + each.source.offset
            target = arenas[self._rank] + each.target.offset
            self._neighbours.memory.copy(target, source, each.source.length, stream)

    def _meet(self, command: Collective, what: int, stream: Any) -> None:
        ranks, flag = command.ranks, self._neighbours.flag
        first = self._first[command.channel, ranks] + what * len(ranks)
        others = [place for place, rank in enumerate(ranks) if rank != self._rank]
        raised = [flag(ranks[place], first + ranks.index(self._rank)) for place in others]
        awaited = [flag(self._rank, first + place) for place in others]
        self._neighbours.memory.meet(raised, awaited, stream)


class _Copy(NamedTuple):
    """giver: the rank that holds `source`."""

    giver: int
    source: Range
    target: Range


def _copies(command: Collective, parts: Mapping[int, Collective], rank: int) -> Iterator[_Copy]:
    """What a rank copies. Each member begins with the next one, so that no source is read by all at once."""
    ranks, own, target = command.ranks, command.ranks.index(rank), parts[rank].target
    if target is None:
        return
    order = [(own + step) % len(ranks) for step in range(1, len(ranks) + 1)]
    match command.kind:
        case "all_gather":
            for place in order:
                source = _source(parts[ranks[place]])
                yield _Copy(ranks[place], source, _part(target, place, source.length))
        case "all_to_all":
            piece = target.length // len(ranks)
            for place in order:
                source = _source(parts[ranks[place]])
                yield _Copy(ranks[place], _part(source, own, piece), _part(target, place, piece))
        case "broadcast":
            assert command.peer is not None, "checked by the proof"
            yield _Copy(ranks[command.peer], _source(parts[ranks[command.peer]]), target)
        case _:
            for giver, taker in command.pairs:
                if taker == own:
                    yield _Copy(ranks[giver], _source(parts[ranks[giver]]), target)


def _source(command: Collective) -> Range:
    assert command.source is not None, "a member that gives has a source"
    return command.source


def _part(whole: Range, index: int, length: int) -> Range:
    return Range(whole.space, whole.offset + index * length, length)


def _host() -> str:
    """The same for all processes of a host, and for no others."""
    boot = _BOOT.read_text().strip() if _BOOT.exists() else ""
    return f"{socket.gethostname()}/{boot}"
