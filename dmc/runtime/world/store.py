"""Values by key that all ranks of a world see, and what ranks do with them before and beside the steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from dmc.errors import DmcError
from dmc.runtime.world.launch import World

TIMEOUT_S = 60.0

Value = TypeVar("Value")


class Keys(Protocol):
    """What a launcher gives: values by key. Each thread may use it, also while another waits in it."""

    where: str
    """For people: what answers, and where."""

    def set(self, key: str, value: bytes) -> None:
        """Puts a value there, in place of an older one."""

    def wait(self, key: str, timeout_s: float) -> bytes | None:
        """The value, as soon as there is one; None if there is none in time."""

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, 0 before, that only this method touches; what it is then."""
        ...


class Store:
    """Values by key that all ranks see. Methods raise DmcError where whoever keeps the values does not answer."""

    def __init__(self, world: World, keys: Keys) -> None:
        self.world = world
        self._keys = keys
        self._uses: dict[str, int] = {}

    def set(self, key: str, value: bytes) -> None:
        """Puts a value there, in place of an older one."""
        self._asked(lambda: self._keys.set(self._own(key), value))

    def get(self, key: str, timeout_s: float = TIMEOUT_S) -> bytes:
        """The value, as soon as there is one. Raises DmcError, naming the key, if there is none in time."""
        value = self._asked(lambda: self._keys.wait(self._own(key), timeout_s))
        if value is None:
            raise self._late(f"nobody has set {key!r}", timeout_s)
        return value

    def peek(self, key: str) -> bytes | None:
        """The value, or None if there is none now."""
        return self._asked(lambda: self._keys.wait(self._own(key), 0))

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, 0 before, that only this method touches; what it is then."""
        return self._asked(lambda: self._keys.add(self._own(key), amount))

    def exchange(self, name: str, mine: bytes, timeout_s: float = TIMEOUT_S) -> list[bytes]:
        """The values that all ranks give, in the order of the ranks; all call it, with one name.

        A name may be used again. Raises DmcError that names the ranks that gave none in time.
        """
        self._uses[name] = self._uses.get(name, 0) + 1
        keys = [f"{name}/{self._uses[name]}/{rank}" for rank in range(self.world.size)]
        self.set(keys[self.world.rank], mine)
        end = time.monotonic() + timeout_s
        found = [self._asked(lambda key=key: self._keys.wait(self._own(key), _left(end))) for key in keys]
        if missing := [str(rank) for rank, value in enumerate(found) if value is None]:
            which = f"rank {missing[0]} has" if len(missing) == 1 else f"ranks {', '.join(missing)} have"
            raise self._late(f"{which} not come to {name!r}", timeout_s)
        return [value for value in found if value is not None]

    def barrier(self, name: str, timeout_s: float = TIMEOUT_S) -> None:
        """Returns when all ranks have called it, with one name, which may be used again. Raises as `exchange` does."""
        self.exchange(name, b"", timeout_s)

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


def _left(end: float) -> float:
    return max(0.0, end - time.monotonic())
