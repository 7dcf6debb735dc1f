"""Calibrates this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from dmc.calibration import gpu, links, steps
from dmc.calibration.graphs import Graphs
from dmc.errors import DmcError
from dmc.machine import Machine, machine, machine_names, machine_of
from dmc.runtime.gpu.cuda_streams import open_device
from dmc.runtime.process.settings import RunSettings
from dmc.runtime.sessions.meeting import communicators_of, store_of
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.launch import World

# What is not measured is taken from here, where the device is not described.
_ASSUMED = "h200x2"


def calibrate_gpu(world: World | None, paths: Sequence[Path] = ()) -> Machine:
    """The GPUs of this host: one, or with `world` as many as there are ranks, each of which calls this.

    paths: compiled steps of one rank, from whose launches the families of kernels are taken. Raises DmcError where
    ranks are on several hosts, and as `open_device`.
    """
    if world is not None and world.local_size != world.size:
        fact = f"are {world.size} on several hosts; links between hosts are not measured"
        raise DmcError("the ranks", fact, hint="start as many ranks as one host has GPUs")
    rank, ranks = (0, 1) if world is None else (world.rank, world.size)
    ordinal = 0 if world is None else world.local_rank
    device = open_device(ordinal)
    base = _base(device.name, ranks)
    channels = None if world is None else Channels(links.job(ranks), rank, communicators_of(world))
    graphs = Graphs(device, gpu.LANES, gpu.code(), rank, channels)
    are_copied = False
    if world is not None and channels is not None:
        are_copied = graphs.share(store_of(world), channels, RunSettings.of(os.environ).is_direct)
    found = replace(base, device=gpu.measured(base, graphs, device.name), ranks_per_node=ranks, network=None)
    if world is None:
        found = replace(found, link=None)
    else:
        store = store_of(world)

        def agreed(own: int) -> int:
            return int(store.exchange("calibrate", str(own).encode())[0])

        found = replace(found, link=links.measured(_link(base), graphs, ranks, agreed, are_copied))
        store.barrier("dmc calibrate")
    if paths:
        launched = [launch for path in paths for launch in steps.launches(path, f"cuda:{ordinal}")]
        source = f"measured by dmc calibrate: {', '.join(path.name for path in paths)}"
        found = replace(found, device=steps.with_launches(found, launched, source))
    if world is not None:
        store_of(world).leave()
    count = "one" if ranks == 1 else str(ranks)
    return replace(found, name=f"{found.device.name}x{ranks}", description=f"{count} {device.name}, as measured")


def _base(product: str, ranks: int) -> Machine:
    """The machine that comes with dmc, with its assumptions about what is not measured."""
    known = [name for name in machine_names() if (of := machine(name).device.product) and product.startswith(of)]
    if known:
        return machine(machine_of(product, ranks))
    other = machine(_ASSUMED)
    name = product.lower().replace(" ", "_")
    return replace(other, device=replace(other.device, name=name, kernels={}, description=f"{product}, as measured"))


def _link(base: Machine) -> links.Link:
    link = base.link or machine(_ASSUMED).link
    assert link is not None, "the machine has two ranks"
    return link
