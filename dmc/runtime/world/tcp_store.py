"""The key-value store of torchrun. The only module of the runtime that imports PyTorch, of which torchrun is a part."""

from __future__ import annotations

import importlib
from datetime import timedelta
from typing import Any

from dmc.errors import DmcError
from dmc.runtime.world.launch import World


class TcpKeys:
    """Keys in a `torch.distributed.TCPStore`."""

    def __init__(self, world: World, timeout_s: float) -> None:
        """Raises DmcError if PyTorch is not installed, and on timeout."""
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
                # `torch.distributed` may use the same address in the same process.
                multi_tenant=True,
            )
        except (RuntimeError, ValueError) as error:
            what = "opened" if serves else f"reached within {timeout_s:g} s"
            why = str(error).partition("\n")[0]
            hint = "check MASTER_ADDR and MASTER_PORT: another program may use the port"
            raise DmcError(f"rank {world.rank}", f"{self.where} cannot be {what} ({why})", hint) from error

    def set(self, key: str, value: bytes) -> None:
        """See `Keys.set`."""
        self._store.set(key, value)

    def get(self, key: str) -> bytes | None:
        """See `Keys.get`."""
        # Checked first: `get` waits for a missing key, and PyTorch logs every timeout.
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
        raise DmcError(
            "ranks", "require PyTorch for the rendezvous at MASTER_ADDR, but it is not installed", hint
        ) from error
