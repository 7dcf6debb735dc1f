"""What a rank that does not run alone has of the others."""

from __future__ import annotations

from functools import cached_property

from dmc.errors import DmcError
from dmc.program import Job
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.communicator import Communicator, Communicators
from dmc.runtime.world.launch import World
from dmc.runtime.world.store import Store


class Peers:
    """The world of this rank, the store in which ranks meet, and the channels of its job once they are opened."""

    def __init__(self, world: World, store: Store, communicators: Communicators) -> None:
        self.world, self.store = world, store
        self._communicators = communicators
        self._channels: Channels | None = None

    def open(self, job: Job) -> Channels:
        """Makes the channels of the job on the device that this process uses; all ranks do so."""
        self._channels = Channels(job, self.world.rank, self._communicators)
        return self._channels

    @cached_property
    def everyone(self) -> Communicator:
        """The communicator of all ranks, beside the steps; all ranks ask for it at the same time."""
        return self._communicators.make(tuple(range(self.world.size)))

    def check(self) -> None:
        """Raises DmcError where a movement between ranks has failed, as far as it is known by now."""
        fact = None if self._channels is None else self._channels.failed()
        if fact is not None:
            hint = "see what the other ranks printed; resume from the last saved file"
            raise DmcError(f"rank {self.world.rank}", f"has lost the others ({fact})", hint)
