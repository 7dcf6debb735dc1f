"""The store of PyTorch's launcher. The one place of the runtime that imports PyTorch, which torchrun comes with."""

from __future__ import annotations

import importlib
import threading
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
            self._first = _torch().TCPStore(
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
        self._own = threading.local()

    def set(self, key: str, value: bytes) -> None:
        """See `Keys.set`."""
        self._client.set(key, value)

    def wait(self, key: str, timeout_s: float) -> bytes | None:
        """See `Keys.wait`."""
        client = self._client
        # Asked first, since a wait that ends in vain is an error, which PyTorch logs.
        if not client.check([key]):
            if not timeout_s:
                return None
            try:
                client.wait([key], timedelta(seconds=timeout_s))
            except _torch().DistStoreError:
                return None
        return client.get(key)

    def add(self, key: str, amount: int) -> int:
        """See `Keys.add`."""
        return self._client.add(key, amount)

    @property
    def _client(self) -> Any:
        # A connection for each thread: on one, who waits holds up the others.
        if not hasattr(self._own, "client"):
            self._own.client = self._first.clone()
        return self._own.client


def _torch() -> Any:
    try:
        return importlib.import_module("torch.distributed")
    except ModuleNotFoundError as error:
        hint = "install PyTorch, or start the ranks with mpirun, without MASTER_ADDR, where mpi4py is installed"
        raise DmcError("ranks", "meet at MASTER_ADDR through PyTorch, which is not installed", hint) from error
