"""Descriptions of machines: devices, links, and machines that combine them.

Every figure carries its `source`: a measurement, a data sheet, or the word "assumed" if there is neither yet. Units:
bytes, bytes per second, floating-point operations per second, nanoseconds.
"""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from dmc.errors import DmcError
from dmc.program import COPIED, COPIED_BYTES


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


class Factor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many times as long something takes."""

    factor: float
    source: str


class Measured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The measured time of one kernel."""

    ns: float
    source: str


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What kernels of a family attain: a launch takes `ns`, plus its time at the peak ÷ `share`.

    A share may exceed 1: what the caches hold does not come from memory.
    """

    share: float
    ns: float
    source: str


class Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The compute device of a rank.

    matrix, vector: peak rates; a type without matrix units multiplies at its vector rate. efficiency: by kernel kind.
    copies: by "source>target". shared: whether all ranks of a node share this one device and its rate. families: by
    `Kernel.family`; they override the efficiency of a kind. kernels: measured times by `Kernel.key`; they override all.
    sustained: what a launch takes under constant load, which draws more power, ÷ what `dmc tune` measures in bursts.
    product: its name, as its driver reports it.
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
    families: dict[str, Family] = {}
    kernels: dict[str, Measured] = {}
    sustained: Factor = Factor(1.0, "assumed: as in bursts")
    product: str = ""


class Link(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A connection between ranks.

    topology: "switched", a port per rank, or "memory", one memory in which all ranks copy. bandwidth: by kind of
    collective; of a port in one direction (nccl-tests' bus bandwidth), or of the memory. start_ns: of any collective.
    hop_ns: of each step of a ring or a tree. compute_slowdown: the factor by which a rank's kernels slow down while it
    communicates over this link. copy_slowdown: the same beside what copy engines move (`dmc.program.COPIED`); None:
    ranks have none. curves: measured times by "kind/ranks", as (bytes, ns) in ascending order; they override the model.
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
    copy_slowdown: float | None = None

    def slowdown(self, kind: str, bytes: int) -> float:
        """The factor by which a rank's kernels slow down beside a collective whose larger side has so many bytes."""
        is_copied = kind in COPIED and bytes >= COPIED_BYTES
        return self.copy_slowdown if is_copied and self.copy_slowdown is not None else self.compute_slowdown


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


def cost_table_hash(machine: Machine) -> str:
    """SHA-256, in hexadecimal, of all figures that costs are computed from: equal tables, equal decisions."""
    return hashlib.sha256(msgspec.json.encode(machine, order="deterministic")).hexdigest()
