"""Jobs written by hand, on a machine of round figures: an operation, a byte copied, a byte sent take 1 ns each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dmc.machine import Copying, Device, Floor, Link, Machine, Memory, Rates, Shares
from dmc.program import (
    Await,
    Buffer,
    Channel,
    Collective,
    CollectiveKind,
    Command,
    Job,
    Kernel,
    Lane,
    Launch,
    Move,
    Operand,
    Program,
    Range,
    Record,
)

LANES = (Lane("compute", "compute"), Lane("dp", "comm", "dp"), Lane("tp", "comm", "tp"), Lane("in", "copy_in"))
COMPUTE, DP, TP, COPY = range(4)
KINDS = ("matmul", "reduction", "elementwise", "other")
COLLECTIVES: tuple[CollectiveKind, ...] = (
    "all_gather",
    "all_reduce",
    "all_to_all",
    "broadcast",
    "permute",
    "recv",
    "reduce_scatter",
    "send",
)
_PLACE = Range("device", 0, 4)


def round_machine(
    slowdown: float = 1.0,
    per_node: int | None = None,
    shared: bool = False,
    bandwidth: float = 1e9,
    memory: bool = False,
    floor: float = 0.0,
) -> Machine:
    """A machine whose only latency is the launch floor; with `per_node` a network of a tenth of the bandwidth."""
    device = Device(
        "round",
        "for tests",
        {space: Memory(1 << 40, 1e30, "test") for space in ("device", "pinned_host", "host")},
        Rates({}, "test"),
        Rates({"f32": 1e9}, "test"),
        Shares(dict.fromkeys(KINDS, 1.0), "test"),
        Floor(floor, "test"),
        {path: Copying(1e9, 0.0, "test") for path in ("pinned_host>device", "device>pinned_host", "device>device")},
        shared,
    )
    topology = "memory" if memory else "switched"
    link = Link("wire", "", topology, dict.fromkeys(COLLECTIVES, bandwidth), 0.0, 0.0, slowdown, "test")
    network = Link("net", "", "switched", dict.fromkeys(COLLECTIVES, bandwidth / 10), 0.0, 0.0, slowdown, "test")
    return Machine("round", "for tests", device, per_node, link, network if per_node else None)


@dataclass
class Rank:
    """Writes the program of one rank, command by command."""

    rank: int = 0
    commands: list[Command] = field(default_factory=list)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)

    def launch(self, ns: int, label: str = "", lane: int = COMPUTE, places: Sequence[Range] = (_PLACE,)) -> Rank:
        """A kernel of so many operations, which updates places."""
        operand = Operand("f32", (1,))
        kernel = Kernel(f"k{ns}", (operand,), (operand,), ns, 0)
        self.kernels[kernel.name] = kernel
        self.commands.append(Launch(lane, kernel.name, tuple(places), tuple(places), label=label))
        return self

    def move(self, bytes: int, label: str = "", lane: int = COPY) -> Rank:
        """A copy to the device."""
        self.commands.append(Move(lane, Range("pinned_host", 0, bytes), Range("device", 0, bytes), label))
        return self

    def reduce(self, bytes: int, instance: int, ranks: Sequence[int] = (0, 1), label: str = "", lane: int = DP) -> Rank:
        """An all-reduce; of two ranks it takes a nanosecond for each byte."""
        return self.collective("all_reduce", bytes, instance, ranks, label, lane)

    def collective(
        self, kind: CollectiveKind, bytes: int, instance: int, ranks: Sequence[int], label: str = "", lane: int = DP
    ) -> Rank:
        """A collective whose source and target have so many bytes."""
        place, channel = Range("device", 0, bytes), LANES[lane].channel or ""
        self.commands.append(
            Collective(lane, kind, channel, tuple(ranks), instance, "i8", bytes, place, place, label=label)
        )
        return self

    def message(self, kind: CollectiveKind, bytes: int, instance: int, ranks: Sequence[int], peer: int) -> Rank:
        """One end of a message; `peer` is an index in `ranks`."""
        place = Range("device", 0, bytes)
        source, target = (place, None) if kind == "send" else (None, place)
        self.commands.append(Collective(DP, kind, "dp", tuple(ranks), instance, "i8", bytes, source, target, peer=peer))
        return self

    def record(self, event: int, lane: int = COMPUTE) -> Rank:
        """Signals an event."""
        self.commands.append(Record(lane, event))
        return self

    def wait(self, event: int, lane: int = COMPUTE) -> Rank:
        """Waits for an event."""
        self.commands.append(Await(lane, event))
        return self


def job_of(*ranks: Rank, mesh: dict[str, int] | None = None) -> Job:
    """The job of these ranks."""
    kernels = {name: kernel for rank in ranks for name, kernel in rank.kernels.items()}
    arena = {"device": 1 << 30, "pinned_host": 1 << 30}
    programs = tuple(
        Program(rank.rank, dict(arena), LANES, (), tuple(rank.commands), tuple(rank.buffers))  # pyright: ignore[reportArgumentType]
        for rank in ranks
    )
    channels = (Channel("dp", ("dp",)), Channel("tp", ("tp",)))
    return Job.of({"dp": len(ranks)} if mesh is None else mesh, channels, kernels, programs)
