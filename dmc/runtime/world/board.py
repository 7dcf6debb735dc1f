"""A store without PyTorch: rank 0 keeps the values, in a thread; MPI tells the others where."""

from __future__ import annotations

import importlib
import secrets
import socket
import threading
from multiprocessing.managers import BaseManager
from typing import Any

from dmc.errors import DmcError
from dmc.runtime.world.launch import World


class Board:
    """Values by key, for the threads of one process."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._numbers: dict[str, int] = {}
        self._changed = threading.Condition()

    def set(self, key: str, value: bytes) -> None:
        """See `Keys.set`."""
        with self._changed:
            self._values[key] = value
            self._changed.notify_all()

    def wait(self, key: str, timeout_s: float) -> bytes | None:
        """See `Keys.wait`."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._values, timeout_s)
            return self._values.get(key)

    def add(self, key: str, amount: int) -> int:
        """See `Keys.add`."""
        with self._changed:
            self._numbers[key] = self._numbers.get(key, 0) + amount
            return self._numbers[key]


class _Manager(BaseManager):
    """Lets other processes use a board; each of their threads has a connection of its own."""


class BoardKeys:
    """A board in whatever process serves it."""

    def __init__(self, address: tuple[str, int], secret: bytes) -> None:
        """Raises OSError where nobody answers."""
        self.where = f"the board of rank 0 at {address[0]}:{address[1]}"
        manager = _Manager(address, secret)
        manager.connect()
        self._board: Any = manager.board()  # pyright: ignore[reportAttributeAccessIssue]

    def set(self, key: str, value: bytes) -> None:
        """See `Keys.set`."""
        self._board.set(key, value)

    def wait(self, key: str, timeout_s: float) -> bytes | None:
        """See `Keys.wait`."""
        return self._board.wait(key, timeout_s)

    def add(self, key: str, amount: int) -> int:
        """See `Keys.add`."""
        return self._board.add(key, amount)


_Manager.register("board", exposed=("set", "wait", "add"))


def serve_board(host: str, secret: bytes) -> tuple[str, int]:
    """Serves a board from a thread of this process, as long as it lives; where it answers."""
    board = Board()

    class Manager(BaseManager):
        pass

    Manager.register("board", callable=lambda: board, exposed=("set", "wait", "add"))
    server = Manager((host, 0), secret).get_server()
    threading.Thread(target=server.serve_forever, name="dmc board", daemon=True).start()
    return server.address  # pyright: ignore[reportReturnType]


def meet_through_mpi(world: World) -> BoardKeys:
    """The board of rank 0. Raises DmcError where mpi4py is not installed, or counts other ranks than the launcher."""
    try:
        mpi: Any = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        fact = f"were started by {world.launcher} and meet through mpi4py, which cannot be imported ({error})"
        hint = "install mpi4py; or set MASTER_ADDR and MASTER_PORT to meet through PyTorch; or use torchrun"
        raise DmcError("ranks", fact, hint) from error
    everyone = mpi.COMM_WORLD
    if (everyone.rank, everyone.size) != (world.rank, world.size):
        fact = f"is rank {everyone.rank} of {everyone.size} to mpi4py, {world.rank} of {world.size} to {world.launcher}"
        raise DmcError("this process", fact, hint="install mpi4py for the MPI whose mpirun starts the ranks")
    secret = secrets.token_bytes(32)
    host = socket.gethostname() if world.local_size < world.size else "127.0.0.1"
    served = (serve_board(host, secret), secret) if world.rank == 0 else None
    return BoardKeys(*everyone.bcast(served))
