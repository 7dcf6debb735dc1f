"""A key-value store that all ranks of a world share, and the operations on it: exchanges, barriers, rendezvous."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from dmc.errors import DmcError
from dmc.runtime.world.launch import World

TIMEOUT_S = 60.0
# For writing files to slow disks; dead ranks are detected otherwise.
WRITING_S = 1800.0

Value = TypeVar("Value")


class Keys(Protocol):
    """A key-value store. Methods are thread-safe and return at once."""

    where: str
    """What serves the values, for messages."""

    def set(self, key: str, value: bytes) -> None:
        """Sets a value, replacing an older one."""

    def get(self, key: str) -> bytes | None:
        """The value, or None if it is not set."""
        ...

    def delete(self, key: str) -> None:
        """Removes a value."""

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, which starts at 0, and returns its new value."""
        ...


class Store:
    """The key-value store of a world. Methods raise DmcError if its server does not answer."""

    def __init__(self, world: World, keys: Keys) -> None:
        self.world = world
        self._keys = keys
        self._uses: dict[str, int] = {}
        self._given_up: DmcError | None = None

    def set(self, key: str, value: bytes) -> None:
        """Sets a value, replacing an older one."""
        self._asked(lambda: self._keys.set(self._own(key), value))

    def get(self, key: str, timeout_s: float = TIMEOUT_S) -> bytes:
        """Waits for a value. Raises DmcError, naming the key, on timeout."""
        value = self._wait(key, time.monotonic() + timeout_s)
        if value is None:
            raise self._late(f"no rank has set {key!r}", timeout_s)
        return value

    def peek(self, key: str) -> bytes | None:
        """The value, or None if it is not set."""
        return self._asked(lambda: self._keys.get(self._own(key)))

    def delete(self, key: str) -> None:
        """Removes a value."""
        self._asked(lambda: self._keys.delete(self._own(key)))

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, which starts at 0, and returns its new value."""
        return self._asked(lambda: self._keys.add(self._own(key), amount))

    def exchange(
        self, name: str, mine: bytes, timeout_s: float = TIMEOUT_S, ranks: Sequence[int] | None = None
    ) -> list[bytes]:
        """Every rank's value, in the order of `ranks` (by default all), each of which calls this with the same name.

        The same ranks may reuse a name. Raises DmcError, naming the ranks that are missing, on timeout.
        """
        members = range(self.world.size) if ranks is None else ranks
        turn = self.turn(name)
        self.set(f"{name}/{turn}/{self.world.rank}", mine)
        end = time.monotonic() + timeout_s
        found = {rank: self._wait(f"{name}/{turn}/{rank}", end) for rank in members}
        if missing := [rank for rank, value in found.items() if value is None]:
            raise self._late(f"{_told(missing)} did not reach {name!r}", timeout_s)
        # A rank that takes part in this exchange has read all values of the one before.
        self.delete(f"{name}/{turn - 1}/{self.world.rank}")
        return [value for value in found.values() if value is not None]

    def barrier(self, name: str, timeout_s: float = TIMEOUT_S) -> None:
        """Waits until all ranks have called it with the same name, which may be reused. Raises like `exchange`."""
        self.exchange(name, b"", timeout_s)

    def turn(self, name: str) -> int:
        """How many times this rank has used a name; ranks that use it in step with each other get the same numbers."""
        self._uses[name] = self._uses.get(name, 0) + 1
        return self._uses[name]

    def leave(self, timeout_s: float = TIMEOUT_S) -> None:
        """Called last: rank 0, which may be the server, waits for all others to call it. Raises like `exchange`."""
        turn = self.turn("left")
        if self.world.rank:
            self.set(f"left/{turn}/{self.world.rank}", b"")
            return
        self._given_up = None
        end = time.monotonic() + timeout_s
        others = range(1, self.world.size)
        if here := [rank for rank in others if self._wait(f"left/{turn}/{rank}", end) is None]:
            raise self._late(f"{_told(here)} did not leave", timeout_s)

    def give_up(self, reason: DmcError) -> None:
        """Makes every wait, current or future, in any thread, raise `reason`."""
        self._given_up = reason

    def _wait(self, key: str, end: float) -> bytes | None:
        """Waits for a value; None if it is not set by `end`."""
        pause = 0.0005
        while (value := self.peek(key)) is None:
            if self._given_up is not None:
                raise self._given_up
            if time.monotonic() >= end:
                return None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        return value

    def _own(self, key: str) -> str:
        # The launcher stores keys of its own there, and those of its earlier attempts remain.
        return f"dmc/{self.world.attempt}/{key}"

    def _asked(self, ask: Callable[[], Value]) -> Value:
        try:
            return ask()
        except (OSError, EOFError, RuntimeError) as error:
            fact = f"{self._keys.where} does not answer ({type(error).__name__})"
            hint = "its server, the launcher or rank 0, has ended: see its output"
            raise DmcError(f"rank {self.world.rank}", fact, hint) from error

    def _late(self, fact: str, timeout_s: float) -> DmcError:
        hint = f"see the output of the missing ranks; {self.world.launcher} should have started {self.world.size}"
        return DmcError(f"rank {self.world.rank}", f"{fact} within {timeout_s:g} s", hint)


def _told(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def open_store(world: World, timeout_s: float = TIMEOUT_S) -> Store:
    """The rendezvous of all ranks: at the launcher's address through PyTorch's TCPStore, otherwise through MPI.

    Raises DmcError if the package it needs is not installed, and on timeout.
    """
    if world.store:
        from dmc.runtime.world.tcp_store import TcpKeys

        return Store(world, TcpKeys(world, timeout_s))
    from dmc.runtime.world.board import meet_through_mpi

    return Store(world, meet_through_mpi(world))


def alone() -> Store:
    """The store of a single process."""
    from dmc.runtime.world.board import Board

    return Store(World(0, 1, 0, 1, "nobody"), Board())
