"""Values by key that all ranks of a world see, and what ranks do with them before and beside the steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from dmc.errors import DmcError
from dmc.runtime.world.launch import World

TIMEOUT_S = 60.0

Value = TypeVar("Value")


class Keys(Protocol):
    """What a launcher gives: values by key, for any thread. Methods return at once."""

    where: str
    """For people: what answers, and where."""

    def set(self, key: str, value: bytes) -> None:
        """Puts a value there, in place of an older one."""

    def get(self, key: str) -> bytes | None:
        """The value, or None if there is none now."""
        ...

    def delete(self, key: str) -> None:
        """Takes the value away."""

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, 0 before, that only this method touches; what it is then."""
        ...


class Store:
    """Values by key that all ranks see. Methods raise DmcError where whoever keeps the values does not answer."""

    def __init__(self, world: World, keys: Keys) -> None:
        self.world = world
        self._keys = keys
        self._uses: dict[str, int] = {}
        self._given_up: DmcError | None = None

    def set(self, key: str, value: bytes) -> None:
        """Puts a value there, in place of an older one."""
        self._asked(lambda: self._keys.set(self._own(key), value))

    def get(self, key: str, timeout_s: float = TIMEOUT_S) -> bytes:
        """The value, as soon as there is one. Raises DmcError, naming the key, if there is none in time."""
        value = self._wait(key, time.monotonic() + timeout_s)
        if value is None:
            raise self._late(f"nobody has set {key!r}", timeout_s)
        return value

    def peek(self, key: str) -> bytes | None:
        """The value, or None if there is none now."""
        return self._asked(lambda: self._keys.get(self._own(key)))

    def delete(self, key: str) -> None:
        """Takes the value away."""
        self._asked(lambda: self._keys.delete(self._own(key)))

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, 0 before, that only this method touches; what it is then."""
        return self._asked(lambda: self._keys.add(self._own(key), amount))

    def exchange(
        self, name: str, mine: bytes, timeout_s: float = TIMEOUT_S, ranks: Sequence[int] | None = None
    ) -> list[bytes]:
        """The values that `ranks` give, by default all, in their order; all of them call it, with one name.

        A name may be used again by the same ranks. Raises DmcError that names the ranks that gave none in time.
        """
        members = range(self.world.size) if ranks is None else ranks
        turn = self.turn(name)
        self.set(f"{name}/{turn}/{self.world.rank}", mine)
        end = time.monotonic() + timeout_s
        found = {rank: self._wait(f"{name}/{turn}/{rank}", end) for rank in members}
        if missing := [str(rank) for rank, value in found.items() if value is None]:
            which = f"rank {missing[0]} has" if len(missing) == 1 else f"ranks {', '.join(missing)} have"
            raise self._late(f"{which} not come to {name!r}", timeout_s)
        # Whoever has come to this turn has read all of the one before.
        self.delete(f"{name}/{turn - 1}/{self.world.rank}")
        return [value for value in found.values() if value is not None]

    def barrier(self, name: str, timeout_s: float = TIMEOUT_S) -> None:
        """Returns when all ranks have called it, with one name, which may be used again. Raises as `exchange` does."""
        self.exchange(name, b"", timeout_s)

    def turn(self, name: str) -> int:
        """How often this rank has asked for this name, the same on all ranks that ask for it as often."""
        self._uses[name] = self._uses.get(name, 0) + 1
        return self._uses[name]

    def leave(self, timeout_s: float = TIMEOUT_S) -> None:
        """The last that a rank asks for now: rank 0, which may keep the values, goes on when nobody needs them.

        Raises as `exchange` does, on rank 0.
        """
        turn = self.turn("left")
        if self.world.rank:
            self.set(f"left/{turn}/{self.world.rank}", b"")
            return
        self._given_up = None
        end = time.monotonic() + timeout_s
        here = [str(rank) for rank in range(1, self.world.size) if self._wait(f"left/{turn}/{rank}", end) is None]
        if here:
            raise self._late(f"rank {', '.join(here)} has not left", timeout_s)

    def give_up(self, reason: DmcError) -> None:
        """Whoever waits here, or will, in any thread, raises `reason`."""
        self._given_up = reason

    def _wait(self, key: str, end: float) -> bytes | None:
        """The value, as soon as there is one; None if there is none at `end`."""
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
        # The launcher keeps values of its own there, and those of ranks that it has started before.
        return f"dmc/{self.world.attempt}/{key}"

    def _asked(self, ask: Callable[[], Value]) -> Value:
        try:
            return ask()
        except (OSError, EOFError, RuntimeError) as error:
            fact = f"{self._keys.where} does not answer ({type(error).__name__})"
            hint = "whoever keeps it, the launcher or rank 0, has ended: see what it printed"
            raise DmcError(f"rank {self.world.rank}", fact, hint) from error

    def _late(self, fact: str, timeout_s: float) -> DmcError:
        hint = f"see what the missing ranks printed; {self.world.launcher} should have started {self.world.size}"
        return DmcError(f"rank {self.world.rank}", f"{fact} within {timeout_s:g} s", hint)


def open_store(world: World, timeout_s: float = TIMEOUT_S) -> Store:
    """Meets the other ranks: where the launcher says, through PyTorch's store, else through MPI.

    Raises DmcError where neither way is installed, or nobody answers in time.
    """
    if world.store:
        from dmc.runtime.world.tcp_store import TcpKeys

        return Store(world, TcpKeys(world, timeout_s))
    from dmc.runtime.world.board import meet_through_mpi

    return Store(world, meet_through_mpi(world))


def alone() -> Store:
    """The store of a process that is a world of its own."""
    from dmc.runtime.world.board import Board

    return Store(World(0, 1, 0, 1, "nobody"), Board())
