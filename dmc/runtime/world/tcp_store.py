"""The store of PyTorch's launcher. The one place of the runtime that imports PyTorch, which torchrun comes with."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import Any

from dmc.errors import DmcError
from dmc.runtime.world.launch import World


class TcpKeys:
    """Values by key in a `torch.distributed.TCPStore`."""

    def __init__(self, world: World, timeout_s: float) -> None:
        """Raises DmcError where PyTorch is not installed, or nobody answers in time."""
        self.where = f"the store of {world.launcher} at {world.store}"
        host, _, port = world.store.rpartition(":")
        serves = world.rank == 0 and not world.launcher_serves
        try:
            self._store = _torch().TCPStore(
                host,
                int(port),
                is_master=serves,
                timeout=timedelta(seconds=timeout_s),
                wait_for_workers=False,
                # The same process may meet others at the same place for `torch.distributed`, too.
                multi_tenant=True,
            )
        except (RuntimeError, ValueError) as error:
            fact = f"{self.where} cannot be reached within {timeout_s:g} s"
            raise DmcError(f"rank {world.rank}", fact, hint="check MASTER_ADDR and MASTER_PORT") from error

    def set(self, key: str, value: bytes) -> None:
        """See `Keys.set`."""
        self._store.set(key, value)

    def get(self, key: str) -> bytes | None:
        """See `Keys.get`."""
        # Asked first: what PyTorch's store does not have it waits for, and logs that it did in vain.
        return self._store.get(key) if self._store.check([key]) else None

    def delete(self, key: str) -> None:
        """See `Keys.delete`."""
        self._store.delete_key(key)

    def add(self, key: str, amount: int) -> int:
        """See `Keys.add`."""
        return self._store.add(key, amount)


def _torch() -> Any:
    try:
        return importlib.import_module("torch.distributed")
    except ModuleNotFoundError as error:
        hint = "install PyTorch, or start the ranks with mpirun, without MASTER_ADDR, where mpi4py is installed"
        raise DmcError("ranks", "meet at MASTER_ADDR through PyTorch, which is not installed", hint) from error
