"""The steps of `tests.random_jobs`, drawn part by part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

from dmc.mesh import Mesh
from dmc.program import (
    ALIGNMENT,
    Channel,
    Collective,
    CollectiveKind,
    Command,
    Kernel,
    Lane,
    Launch,
    Move,
    Operand,
    Range,
    Variants,
)
from tests.job_memory import Piece, Storages

MESHES = ({"dp": 2}, {"dp": 3}, {"dp": 4}, {"dp": 2, "tp": 2}, {"dp": 1})
# Elements of f32; 12 divides them, so that every group can split them, and few are multiples of the alignment.
SIZES = (12, 24, 48, 60, 96, 192)
BYTES = 4
REDUCING = ("all_reduce", "reduce_scatter")


@dataclass(frozen=True)
class Step:
    """A command of every rank: what it touches, and how it is made for a rank of the ranges of that."""

    lane: int
    reads: tuple[Piece, ...]
    writes: tuple[Piece, ...]
    make: Callable[[int, Sequence[Range], Sequence[Range]], Command]


@dataclass
class RandomStep:
    """Draws a step; `values` are those that may still be read, the newest last."""

    random: Random
    sizes: dict[str, int]
    storages: Storages = field(default_factory=Storages)
    kernels: dict[str, Kernel] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    values: list[Piece] = field(default_factory=list)
    parameters: list[Piece] = field(default_factory=list)
    instances: int = 0
    # Along these, ranks exchange messages, so that their programs differ.
    stages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.mesh = Mesh(links=None, **self.sizes)
        axes = [(axis,) for axis in self.sizes] + ([tuple(self.sizes)] if len(self.sizes) > 1 else [])
        self.channels = tuple(Channel("_".join(each), each) for each in axes)
        comm = tuple(Lane(channel.name, "comm", channel.name) for channel in self.channels)
        self.lanes = (Lane("compute", "compute"), Lane("in", "copy_in"), Lane("out", "copy_out"), *comm)

    def draw(self, length: int) -> None:
        """The whole step, with so many random parts between its copies in and its updates."""
        for number in range(self.random.randint(1, 3)):
            self.parameters.append(self.storages.given(f"w{number}", "parameter", self.size()))
        for number in range(self.random.randint(1, 2)):
            batch = self.storages.given(f"x{number}", "batch", self.size())
            self.move(1, batch, self.storages.new("device", batch.length))
        self.kernel()
        parts = (self.kernel, self.kernel, self.in_place, self.hand_over, self.slice)
        if self.mesh.size > 1:
            parts += (self.collective, self.collective, self.bucket, self.exchange)
        for _ in range(length):
            self.random.choice(parts)()
        self.update()

    def size(self) -> int:
        """The bytes of a new value."""
        return self.random.choice(SIZES) * BYTES

    def pick(self) -> Piece:
        """A value to read, mostly a new one."""
        at = min(int(self.random.expovariate(0.5)), len(self.values) - 1)
        return self.values[-1 - at]

    def emit(self, lane: int, reads: Sequence[Piece], writes: Sequence[Piece], make: Callable[..., Command]) -> None:
        """Adds a command."""
        self.storages.touch(len(self.steps), (*reads, *writes))
        self.steps.append(Step(lane, tuple(reads), tuple(writes), make))

    def launch(self, reads: Sequence[Piece], writes: Sequence[Piece], axes: tuple[str, ...] = ()) -> None:
        """Adds a launch; launches of equal types share a kernel, one in four needs scratch memory.

        axes: along these each rank has a kernel of its own.
        """
        types = tuple(tuple(Operand("f32", (piece.length // BYTES,)) for piece in each) for each in (reads, writes))
        scratch = 0 if self.random.random() < 0.75 else ALIGNMENT
        name = f"k{crc32(repr((types, scratch)).encode())}"
        names = tuple(f"{name}_{i}" if axes else name for i in range(self.mesh.group_size(axes)))
        self.kernels |= {each: Kernel(each, *types, flops=1, traffic=1, scratch=scratch) for each in names}
        room = [self.storages.new("device", scratch, "scratch")] if scratch else []
        label = f"layer.{len(self.steps)}"

        def make(rank: int, read: Sequence[Range], written: Sequence[Range]) -> Command:
            extra = written[len(writes)] if scratch else None
            own, variants = names[self.mesh.index_in_group(rank, axes)], Variants(axes, names) if axes else None
            return Launch(0, own, tuple(read), tuple(written[: len(writes)]), extra, label, variants=variants)

        self.emit(0, reads, [*writes, *room], make)

    def kernel(self) -> None:
        """New values computed from some values and a parameter."""
        reads = [self.pick() for _ in range(self.random.randint(1, 2)) if self.values]
        writes = [self.storages.new("device", self.size()) for _ in range(self.random.choice((1, 1, 2)))]
        self.launch([*reads, self.random.choice(self.parameters)], writes)
        self.values += writes

    def in_place(self) -> None:
        """The newest value computed anew where it lies."""
        self.launch([self.pick(), self.values[-1]], [self.values[-1]])

    def hand_over(self) -> None:
        """A value that ends where a new one begins, in the same bytes."""
        old = self.values.pop()
        if not self.storages.is_whole(old) or not self.values:
            self.values.append(old)
            return
        new = self.storages.after(old)
        self.launch([self.pick(), old], [new])
        self.values.append(new)

    def slice(self) -> None:
        """The piece of a value that belongs to the rank is an operand, copied or moved; ranks may have own kernels."""
        whole = self.pick()
        axes = (self.random.choice(list(self.sizes)),)
        length = whole.length // self.mesh.group_size(axes)
        if length % BYTES:
            return
        piece = Piece(whole.storage, whole.offset, length, axes)
        match self.random.randrange(4):
            case 0:
                self.move(0, piece, self.storages.new("device", length))
            case 1:
                self.values.append(self.storages.new("device", length))
                self.movement("all_reduce", 0, piece, self.values[-1])
            case variants:
                self.values.append(self.storages.new("device", self.size()))
                self.launch([piece], [self.values[-1]], axes if variants == 2 else ())

    def move(self, lane: int, source: Piece, target: Piece) -> None:
        """A copy between memory spaces."""
        label = f"copy.{len(self.steps)}"
        self.emit(lane, [source], [target], lambda _, read, written: Move(lane, read[0], written[0], label))
        self.values.append(target)

    def collective(self) -> None:
        """A value moved between the ranks of a group."""
        kinds: tuple[CollectiveKind, ...] = (
            *("all_gather", "all_reduce", "all_reduce", "all_to_all", "broadcast", "permute", "reduce_scatter"),
        )
        kind = self.random.choice(kinds)
        source = self.pick()
        channel = self.random.randrange(len(self.channels))
        members = self.mesh.group_size(self.channels[channel].axes)
        length = source.length
        if kind in ("all_to_all", "reduce_scatter") and length % (members * BYTES):
            return
        if kind == "all_gather":
            length *= members
        elif kind == "reduce_scatter":
            length //= members
        in_place = kind == "all_reduce" and self.random.random() < 0.5
        target = source if in_place else self.storages.new("device", length)
        self.movement(kind, channel, source, target)
        self.values += [] if in_place else [target]

    def movement(self, kind: CollectiveKind, channel: int, source: Piece, target: Piece) -> None:
        """Adds a collective of a channel, by its number."""
        axes, name, lane = self.channels[channel].axes, self.channels[channel].name, 3 + channel
        instance, members = self.instances, self.mesh.group_size(axes)
        self.instances += 1
        reduces = kind in REDUCING
        peer = self.random.randrange(members) if kind == "broadcast" else None
        pairs = tuple((i, (i + 1) % members) for i in range(members)) if kind == "permute" else ()

        def make(rank: int, read: Sequence[Range], written: Sequence[Range]) -> Command:
            return Collective(
                lane=lane,
                kind=kind,
                channel=name,
                ranks=self.mesh.group(rank, axes),
                instance=instance,
                dtype="f32",
                count=source.length // BYTES,
                source=read[0],
                target=written[0],
                reduction="sum" if reduces else None,
                accumulate="f32" if reduces else None,
                peer=peer,
                pairs=pairs,
                label=f"gradient.{instance}",
            )

        self.emit(lane, [source], [target], make)

    def bucket(self) -> None:
        """Values made inside one buffer, with padding between them, that are reduced together."""
        members = [self.size() for _ in range(self.random.randint(2, 3))]
        whole, pieces = self.storages.bucket(members)
        for piece in pieces:
            self.launch([self.pick()], [piece])
        self.movement("all_reduce", self.random.randrange(len(self.channels)), whole, whole)
        self.values += pieces

    def exchange(self) -> None:
        """Neighbours of a group of even size send each other a value: the even one first."""
        channel = self.random.randrange(len(self.channels))
        axes, name, lane = self.channels[channel].axes, self.channels[channel].name, 3 + channel
        if self.mesh.group_size(axes) % 2:
            return
        self.stages = tuple(axis for axis in self.sizes if axis in (*self.stages, *axes))
        source = self.pick()
        target = self.storages.new("device", source.length)
        for turn in (0, 1):
            instance = self.instances
            self.instances += 1

            def make(
                rank: int, read: Sequence[Range], written: Sequence[Range], turn: int = turn, n: int = instance
            ) -> Command:
                place, ranks = self.mesh.index_in_group(rank, axes), self.mesh.group(rank, axes)
                sends = place % 2 == turn
                ends = (read[0], None) if sends else (None, written[0])
                kind: CollectiveKind = "send" if sends else "recv"
                return Collective(
                    *(lane, kind, name, ranks, n, "f32", source.length // BYTES),
                    *ends,
                    peer=place ^ 1,
                    label=f"message.{n}",
                )

            self.emit(lane, [source], [target], make)
        self.values.append(target)

    def update(self) -> None:
        """All values together become the new parameters and the loss."""
        for parameter in self.parameters:
            self.launch([parameter, self.pick()], [parameter])
        loss = self.storages.new("device", BYTES)
        self.launch([*self.values, *self.parameters], [loss])
        out = self.storages.output("loss", BYTES)
        self.move(2, loss, out)
