"""How a process that is one rank of a step on GPUs meets the others."""

from __future__ import annotations

from functools import cache

from dmc.errors import DmcError
from dmc.runtime.files.artifact import Artifact
from dmc.runtime.gpu.cuda_streams import CudaStreams, open_device
from dmc.runtime.process.settings import RunSettings
from dmc.runtime.world.agreement import agree, facts_of
from dmc.runtime.world.launch import World
from dmc.runtime.world.nccl import NcclCommunicators
from dmc.runtime.world.peers import Peers
from dmc.runtime.world.store import Store, open_store


def meet(world: World, artifact: Artifact, ordinal: int, settings: RunSettings) -> tuple[CudaStreams, Peers]:
    """The device of this rank and the other ranks, all of which call this, step by step.

    ordinal: of the device. Raises DmcError on all ranks if one has no such device, or is about to run something else.
    """
    store = store_of(world)
    try:
        device, communicators, trouble = open_device(ordinal), communicators_of(world), ""
    except DmcError as error:
        device, communicators, trouble = None, None, str(error)
    agree(store, facts_of(artifact), trouble)
    assert device is not None and communicators is not None, "agreed without trouble"
    return device, Peers(world, store, communicators, artifact.job, settings)


# Once per process: a second store would reuse the keys of the first.
@cache
def store_of(world: World) -> Store:
    """The store of this process."""
    return open_store(world)


@cache
def communicators_of(world: World) -> NcclCommunicators:
    """What makes communicators in this process."""
    return NcclCommunicators(store_of(world))
