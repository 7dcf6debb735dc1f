"""A key-value store without PyTorch: rank 0 serves it from a thread, and broadcasts its address by MPI."""

from __future__ import annotations

import importlib
import secrets
import socket
import sys
import threading
from multiprocessing.managers import BaseManager
from typing import Any

from dmc.errors import DmcError
from dmc.runtime.world.launch import World

_METHODS = ("set", "get", "delete", "add")


class Board:
    """Keys in the memory of one process."""

    where = "this process"

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def set(self, key: str, value: bytes) -> None:
        """See `Keys.set`."""
        self._values[key] = value

    def get(self, key: str) -> bytes | None:
        """See `Keys.get`."""
        return self._values.get(key)

    def delete(self, key: str) -> None:
        """See `Keys.delete`."""
        self._values.pop(key, None)

    def add(self, key: str, amount: int) -> int:
        """See `Keys.add`."""
        with self._lock:
            self._numbers[key] = self._numbers.get(key, 0) + amount
            return self._numbers[key]


class _Manager(BaseManager):
    """Gives other processes access to a board, through one connection per thread."""


class BoardKeys:
    """Keys on the board of another process."""

    def __init__(self, address: tuple[str, int], secret: bytes) -> None:
        """Raises OSError if nobody answers."""
        self.where = f"the board of rank 0 at {address[0]}:{address[1]}"
        manager = _Manager(address, secret)
        manager.connect()
        self._board: Any = manager.board()  # pyright: ignore[reportAttributeAccessIssue]
        # Rank 0 keeps the board anyway. To tell it that this process no longer needs it, whenever garbage is collected
        # or the process ends, would be to wait for a rank that may have stalled.
        self._board._close.cancel()

    def set(self, key: str, value: bytes) -> None:
        """See `Keys.set`."""
        self._board.set(key, value)

    def get(self, key: str) -> bytes | None:
        """See `Keys.get`."""
        return self._board.get(key)

    def delete(self, key: str) -> None:
        """See `Keys.delete`."""
        self._board.delete(key)

    def add(self, key: str, amount: int) -> int:
        """See `Keys.add`."""
        return self._board.add(key, amount)


_Manager.register("board", exposed=_METHODS)


def serve_board(host: str, secret: bytes) -> tuple[str, int]:
    """Serves a board from a daemon thread of this process; returns its address."""
    board = Board()

    class Manager(BaseManager):
        pass

    Manager.register("board", callable=lambda: board, exposed=_METHODS)
    server = Manager((host, 0), secret).get_server()
    threading.Thread(target=server.serve_forever, name="dmc board", daemon=True).start()
    return server.address  # pyright: ignore[reportReturnType]


def meet_through_mpi(world: World) -> BoardKeys:
    """The board of rank 0. Raises DmcError if mpi4py is not installed, or disagrees with the launcher about ranks.

    MPI is done with afterwards, unless the program had imported mpi4py before.
    """
    is_own = "mpi4py.MPI" not in sys.modules
    try:
        mpi: Any = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        fact = f"were started by {world.launcher} and require mpi4py, which cannot be imported ({error})"
        hint = "install mpi4py, or use torchrun, or set MASTER_ADDR and MASTER_PORT to use PyTorch instead"
        raise DmcError("ranks", fact, hint) from error
    everyone = mpi.COMM_WORLD
    if (everyone.rank, everyone.size) != (world.rank, world.size):
        fact = (
            f"is rank {everyone.rank} of {everyone.size} for mpi4py, {world.rank} of {world.size} for {world.launcher}"
        )
        raise DmcError("this process", fact, hint="build mpi4py against the MPI of this mpirun")
    secret = secrets.token_bytes(32)
    # A host's own name may mean its loopback address to itself: on several hosts, all addresses are served.
    served, name = ("127.0.0.1",) * 2 if world.local_size == world.size else ("", socket.gethostname())
    board = ((name, serve_board(served, secret)[1]), secret) if world.rank == 0 else None
    address, secret = everyone.bcast(board)
    keys, why = _reached(address, secret)
    failed = next((each for each in enumerate(everyone.allgather(why)) if each[1]), None)
    if is_own:
        # At the end of a process that has failed MPI would wait for the others, which wait for its board.
        mpi.Finalize()
    if keys is None or failed is not None:
        rank, why = failed or (world.rank, why)
        fact = f"cannot reach rank 0 at {address[0]}:{address[1]} ({why})"
        hint = "let hosts reach each other by name, or set MASTER_ADDR and MASTER_PORT to use PyTorch instead"
        raise DmcError(f"rank {rank}", fact, hint)
    return keys


def _reached(address: tuple[str, int], secret: bytes) -> tuple[BoardKeys | None, str]:
    """The board, or why there is none."""
    try:
        return BoardKeys(address, secret), ""
    except OSError as error:
        return None, str(error) or type(error).__name__
