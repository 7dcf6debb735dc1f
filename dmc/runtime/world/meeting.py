"""How a process that is one rank of a step on GPUs comes to know the others."""

from __future__ import annotations

from functools import cache

from dmc.runtime.world.launch import World
from dmc.runtime.world.nccl import NcclCommunicators
from dmc.runtime.world.peers import Peers
from dmc.runtime.world.store import Store, open_store


def meet(world: World) -> Peers:
    """Meets the other ranks; all of them do so, for one step after the other. Raises DmcError where that fails."""
    return Peers(world, *_met(world))


@cache
def _met(world: World) -> tuple[Store, NcclCommunicators]:
    # Once in a process: a second store would use the keys of the first again.
    store = open_store(world)
    return store, NcclCommunicators(store)
