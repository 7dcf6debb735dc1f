"""Storages of random jobs: how long each is needed, and where it lies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dmc.mesh import Mesh
from dmc.program import Buffer, Range, Slot, aligned
from dmc.program.program import Space

ELEMENT = 4


@dataclass(frozen=True)
class Piece:
    """Bytes of a storage; with `axes`, behind them those of the members before a rank along these."""

    storage: int
    offset: int
    length: int
    axes: tuple[str, ...] = ()


@dataclass
class Storage:
    """A buffer in the making. `role` and `name` are those of its slot; `after` is the storage whose bytes it takes."""

    space: Space
    length: int
    category: str
    first: int = -1
    last: int = -1
    name: str = ""
    role: str = ""
    after: int | None = None
    offset: int = 0


@dataclass
class Storages:
    """All storages of a step."""

    all: list[Storage] = field(default_factory=list)

    def new(self, space: Space, length: int, category: str = "activation") -> Piece:
        """A storage of so many bytes, all of it."""
        self.all.append(Storage(space, length, category))
        return Piece(len(self.all) - 1, 0, length)

    def given(self, name: str, role: str, length: int) -> Piece:
        """The storage of a slot that the host fills; state stays there."""
        piece = self.new("device" if role == "parameter" else "pinned_host", length, role)
        storage = self.all[piece.storage]
        storage.first, storage.name, storage.role = 0, name, role
        return piece

    def output(self, name: str, length: int) -> Piece:
        """The storage of a slot that the host reads."""
        piece = self.new("pinned_host", length, "output")
        self.all[piece.storage].name, self.all[piece.storage].role = name, "output"
        return piece

    def after(self, old: Piece) -> Piece:
        """A storage that takes the bytes of another when that ends."""
        piece = self.new("device", old.length)
        self.all[piece.storage].after = old.storage
        return piece

    def bucket(self, lengths: Iterable[int]) -> tuple[Piece, list[Piece]]:
        """A storage whose members begin at multiples of the alignment; all of it, and each of them."""
        pieces: list[Piece] = []
        end = 0
        for length in lengths:
            offset = aligned(end)
            pieces.append(Piece(len(self.all), offset, length))
            end = offset + length
        return self.new("device", end, "communication"), pieces

    def is_whole(self, piece: Piece) -> bool:
        """Whether the piece is a storage of its own, which another may take over."""
        storage = self.all[piece.storage]
        return piece.length == storage.length and not storage.role

    def touch(self, index: int, pieces: Iterable[Piece]) -> None:
        """Command `index` uses the storages."""
        for piece in pieces:
            storage = self.all[piece.storage]
            storage.first = index if storage.first < 0 else storage.first
            storage.last = index

    def place(self, commands: int) -> dict[Space, int]:
        """Gives each storage an offset, first fit, and returns the sizes of the arenas."""
        for storage in self.all:
            if storage.role in ("parameter", "output"):
                storage.last = commands - 1
        placed: list[Storage] = []
        arenas: dict[Space, int] = {}
        spans = {i: self._span(i) for i, storage in enumerate(self.all) if storage.after is None}
        for number, (first, last) in spans.items():
            storage = self.all[number]
            others = sorted(
                (each.offset, each.offset + each.length)
                for each in placed
                if each.space == storage.space and each.first <= last and first <= each.last
            )
            for begin, end in others:
                if storage.offset + storage.length > begin and end > storage.offset:
                    storage.offset = aligned(end)
            placed.append(replace(storage, first=first, last=last))
            arenas[storage.space] = max(arenas.get(storage.space, 0), storage.offset + storage.length)
        for storage in self.all:
            if storage.after is not None:
                storage.offset = self.all[storage.after].offset
        return {space: aligned(size) for space, size in arenas.items()}

    def _span(self, number: int) -> tuple[int, int]:
        """From when to when a storage and those that take it over live."""
        first, last = self.all[number].first, self.all[number].last
        while (number := next((i for i, each in enumerate(self.all) if each.after == number), -1)) >= 0:
            last = max(last, self.all[number].last)
        return first, last

    def range_of(self, piece: Piece, mesh: Mesh, rank: int) -> Range:
        """Where a placed piece lies on a rank."""
        storage = self.all[piece.storage]
        index = mesh.index_in_group(rank, piece.axes) if piece.axes else 0
        return Range(storage.space, storage.offset + piece.offset + index * piece.length, piece.length)

    def slots(self) -> tuple[Slot, ...]:
        """The slots of a placed step."""
        return tuple(
            Slot(each.name, each.role, "f32", (each.length // ELEMENT,), Range(each.space, each.offset, each.length))
            for each in self.all
            if each.role
        )

    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers of a placed step."""
        return tuple(
            Buffer(
                f"{each.category}.{i}",
                each.category,
                Range(each.space, each.offset, each.length),
                each.first,
                each.last,
            )
            for i, each in enumerate(self.all)
        )
