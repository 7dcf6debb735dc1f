"""The ranks of one host that copy out of each other's memory: what they share, and how it ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from dmc.errors import DmcError
from dmc.runtime.world.shared_words import WORD_BYTES, SharedWords, create
from dmc.runtime.world.store import Store

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Memory(Protocol):
    """See `dmc.runtime.gpu.peer_memory.PeerMemory`."""

    def register(self, pointer: int, length: int) -> int: ...
    def unregister(self, pointer: int) -> None: ...
    def share(self, pointer: int) -> bytes: ...
    def open(self, handle: bytes) -> int: ...
    def close(self, pointer: int) -> None: ...
    def copy(self, target: int, source: int, length: int, stream: Any) -> None: ...
    def fork(self, stream: Any, number: int) -> Any: ...
    def join(self, stream: Any, number: int) -> None: ...
    def record(self, stream: Any) -> Any: ...
    def wait(self, stream: Any, event: Any) -> None: ...
    def meet(self, raised: Sequence[int], awaited: Sequence[int], stream: Any) -> None: ...


class _Offer(msgspec.Struct, frozen=True):
    """What a rank shares: its host, its arena, and the file of its host's flags, if it is the first there."""

    host: str
    arena: bytes = b""
    flags: str = ""
    trouble: str = ""


class Neighbours:
    """The ranks on this host, this one included, whose memory this process can copy from and to.

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


def _host() -> str:
    """The same for all processes of a host, and for no others."""
    boot = _BOOT.read_text().strip() if _BOOT.exists() else ""
    return f"{socket.gethostname()}/{boot}"
