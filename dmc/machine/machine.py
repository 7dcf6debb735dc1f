"""Descriptions of machines, read from the JSON files in `data/`: devices, links, and machines that combine them.

Every figure carries its `source`: a measurement, a data sheet, or the word "assumed" if there is neither yet. Units:
bytes, bytes per second, floating-point operations per second, nanoseconds.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Literal, TypeVar

import msgspec

from dmc.errors import DmcError


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A memory space: its size in bytes, and its bandwidth in bytes per second."""

    bytes: int
    bandwidth: float
    source: str


class Rates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Peak operations per second by MLIR's name of the element type."""

    rates: dict[str, float]
    source: str


class Shares(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The share of the peak, in (0, 1], that kernels of a kind attain."""

    shares: dict[str, float]
    source: str


class Floor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The cost of every launch, however small."""

    ns: float
    source: str


class Copying(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A copy between two memory spaces: `bandwidth` counts each byte once."""

    bandwidth: float
    latency_ns: float
    source: str


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The measured time of one kernel."""

    ns: float
    source: str


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The compute device of a rank.

    matrix, vector: peak rates; a type without matrix units multiplies at its vector rate. efficiency: by kernel kind.
    copies: by "source>target". shared: whether all ranks of a node share this one device and its rate. kernels:
    measured times by `kernel_key`; they override the model.
    """

    name: str
    description: str
    memories: dict[str, Memory]
    matrix: Rates
    vector: Rates
    efficiency: Shares
    launch: Floor
    copies: dict[str, Copying]
    shared: bool = False
    kernels: dict[str, Measured] = {}


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A connection between ranks.

    topology: "switched", a port per rank, or "memory", one memory in which all ranks copy. bandwidth: by kind of
    collective; of a port in one direction (nccl-tests' bus bandwidth), or of the memory. start_ns: of any collective.
    hop_ns: of each step of a ring or a tree. compute_slowdown: the factor by which a rank's kernels slow down while it
    communicates over this link. curves: measured times by "kind/ranks", as (bytes, ns) in ascending order; they
    override the model.
    """

    name: str
    description: str
    topology: Literal["switched", "memory"]
    bandwidth: dict[str, float]
    start_ns: float
    hop_ns: float
    compute_slowdown: float
    source: str
    curves: dict[str, tuple[tuple[float, float], ...]] = {}


class Machine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ranks with a device each, in nodes of `ranks_per_node`: rank r is on node r // ranks_per_node.

    link: within a node. network: between nodes; None if there is only one node, and `ranks_per_node` is the number of
    ranks (None: any number).
    """

    name: str
    description: str
    device: Device
    ranks_per_node: int | None
    link: Link | None
    network: Link | None

    @property
    def ranks(self) -> int | None:
        """The number of ranks; None: any number."""
        return self.ranks_per_node if self.network is None else None

    def check_ranks(self, count: int) -> None:
        """Raises DmcError if a job of this many ranks does not fit."""
        if self.ranks is not None and count > self.ranks:
            hint = "take a machine with more devices, or one with a network (node8)"
            raise DmcError(f"machine {self.name}", f"has {self.ranks} of the {count} ranks", hint=hint)

    def node(self, rank: int) -> int:
        """The node that a rank is on."""
        return 0 if self.ranks_per_node is None else rank // self.ranks_per_node


class _Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a machine's file: device and links by the names of their files."""

    name: str
    description: str
    device: str
    ranks_per_node: int | None
    link: str | None = None
    network: str | None = None


_DATA = resources.files("dmc.machine") / "data"
_Part = TypeVar("_Part", Device, Link, _Recipe)


def machine_names() -> tuple[str, ...]:
    """The names of all described machines, in alphabetical order."""
    return tuple(sorted(file.name.removesuffix(".json") for file in (_DATA / "machines").iterdir()))


def machine(name: str) -> Machine:
    """The machine of that name; raises DmcError if there is none."""
    if name not in machine_names():
        raise DmcError(f"machine '{name}'", "is not described", hint=f"use one of {', '.join(machine_names())}")
    recipe = _read("machines", name, _Recipe)
    return Machine(
        name=recipe.name,
        description=recipe.description,
        device=_read("devices", recipe.device, Device),
        ranks_per_node=recipe.ranks_per_node,
        link=_link(recipe.link),
        network=_link(recipe.network),
    )


def cost_table_hash(machine: Machine) -> str:
    """SHA-256, in hexadecimal, of all figures that costs are computed from: equal tables, equal decisions."""
    return hashlib.sha256(msgspec.json.encode(machine, order="deterministic")).hexdigest()


def _link(name: str | None) -> Link | None:
    return None if name is None else _read("links", name, Link)


def _read(folder: str, name: str, kind: type[_Part]) -> _Part:
    return msgspec.json.decode((_DATA / folder / f"{name}.json").read_bytes(), type=kind)


def machine_for(name: str, ranks: int) -> str:
    """Of the machines with the device of machine `name` the smallest that has so many ranks; else `name` itself."""
    device = machine(name).device
    fitting = [
        each
        for each in map(machine, machine_names())
        if each.device == device and (each.ranks is None or each.ranks >= ranks)
    ]
    return min(fitting, key=lambda each: (each.ranks is None, each.ranks or 0)).name if fitting else name
