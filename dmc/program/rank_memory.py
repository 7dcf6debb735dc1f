"""The device memory of ranks whose programs are equal: what lives when, by category and by module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from dmc.program.categories import CATEGORIES
from dmc.program.job import Job
from dmc.program.labels import BACKWARD, RECOMPUTED, UPDATE, short
from dmc.program.offloading import offloaded
from dmc.program.program import DEVICE, HOST, Await, Buffer, Move, Program, Range, Record, Space

_LAYER = re.compile(r"^(?:[^.\d][^.]*\.)*\d+(?=\.|$)")
_NO_MODULE = "outside modules"


@dataclass(frozen=True)
class RankMemory:
    """The device memory of `ranks`, whose programs are equal.

    arenas: bytes by memory space. buffers: those in device memory, by command. live: live bytes by command (rows) and
    category of `CATEGORIES` (columns). labels: a name for each command. moves: of what is offloaded, to host memory.
    waiting: the buffers of state in host memory.
    """

    ranks: tuple[int, ...]
    arenas: Mapping[Space, int]
    buffers: tuple[Buffer, ...]
    live: NDArray[np.int64]
    labels: tuple[str, ...]
    moves: tuple[Move, ...] = ()
    waiting: tuple[Buffer, ...] = ()

    @property
    def arena(self) -> int:
        """The bytes that are allocated on the device."""
        return self.arenas.get(DEVICE, 0)

    @property
    def peak_command(self) -> int:
        """The first command at the peak."""
        return int(self.live.sum(axis=1).argmax())

    @property
    def peak(self) -> int:
        """The peak of live bytes."""
        return int(self.live.sum(axis=1).max())

    @property
    def fragmentation(self) -> int:
        """The bytes of the arena that are unused at the peak: fragmentation and alignment."""
        return self.arena - self.peak

    @property
    def at_peak(self) -> dict[str, int]:
        """Bytes by category at the peak."""
        return dict(zip(CATEGORIES, map(int, self.live[self.peak_command]), strict=True))

    @property
    def most(self) -> dict[str, int]:
        """The peak of live bytes of each category, each at its own time."""
        return dict(zip(CATEGORIES, map(int, self.live.max(axis=0)), strict=True))

    def alive(self, command: int) -> list[Buffer]:
        """The live buffers at a command, largest first."""
        found = [buffer for buffer in self.buffers if buffer.first <= command <= buffer.last]
        return sorted(found, key=lambda buffer: (-buffer.range.length, buffer.range.offset))

    def modules(self) -> dict[str, int]:
        """Bytes of activations at the peak by module, down to the first layer number of its path, largest first."""
        return _by_module(buffer for buffer in self.alive(self.peak_command) if buffer.category == "activation")

    @property
    def backward(self) -> int | None:
        """The first command of the backward pass; None if there is none."""
        return next((number for number, label in enumerate(self.labels) if label.endswith(BACKWARD)), None)

    def kept(self) -> dict[str, int]:
        """Bytes of activations by module that the forward pass leaves to the backward pass, largest first."""
        alive = [] if self.backward is None else self.alive(self.backward)
        return _by_module(
            buffer
            for buffer in alive
            if buffer.category == "activation" and not buffer.label.endswith((BACKWARD, UPDATE, RECOMPUTED))
        )

    def recomputed(self) -> dict[str, int]:
        """Bytes of activations by module that the backward pass computes again, largest first."""
        return _by_module(buffer for buffer in self.buffers if buffer.label.endswith(RECOMPUTED))

    def offloaded(self) -> dict[str, int]:
        """Bytes by module that wait in host memory for the backward pass, largest first."""
        found: Counter[str] = Counter()
        for move in self.moves:
            found[module_of(move.label)] += move.source.length
        return dict(found.most_common())

    def in_host_memory(self) -> dict[str, int]:
        """Bytes of state by module that wait in host memory between steps, largest first."""
        return _by_module(self.waiting)


def memories_of(job: Job) -> tuple[RankMemory, ...]:
    """The memory of the ranks of a job; those with equal programs are one entry. Linear in the number of buffers and
    commands."""
    alike: dict[tuple[object, ...], list[int]] = {}
    programs: list[Program] = []
    for own in job.classes:
        key = (tuple(own.program.arenas.items()), own.program.buffers)
        if key not in alike:
            programs.append(own.program)
        alike.setdefault(key, []).extend(own.ranks)
    return tuple(_rank_memory(program, ranks) for program, ranks in zip(programs, alike.values(), strict=True))


def _rank_memory(program: Program, ranks: Sequence[int]) -> RankMemory:
    buffers = _apart(buffer for buffer in program.buffers if buffer.range.space == DEVICE)
    columns = {category: column for column, category in enumerate(CATEGORIES)}
    changes = np.zeros((len(program.commands) + 1, len(columns)), dtype=np.int64)
    for buffer in buffers:
        changes[buffer.first, columns[buffer.category]] += buffer.range.length
        changes[buffer.last + 1, columns[buffer.category]] -= buffer.range.length
    live = np.cumsum(changes, axis=0)[: max(len(program.commands), 1)]
    waiting = tuple(buffer for buffer in program.buffers if buffer.range.space == HOST)
    return RankMemory(tuple(ranks), program.arenas, buffers, live, _labels(program), tuple(offloaded(program)), waiting)


def _apart(buffers: Iterable[Buffer]) -> tuple[Buffer, ...]:
    """The buffers without overlap: one overwritten in place ends where the new value begins."""
    apart: list[Buffer] = []
    ordered = sorted(buffers, key=lambda buffer: (buffer.range, buffer.first, buffer.last))
    begins: dict[Range, int] = {}  # For each place, when the next buffer there begins.
    for buffer in reversed(ordered):
        last = min(buffer.last, begins.get(buffer.range, buffer.last + 1) - 1)
        begins[buffer.range] = buffer.first
        if buffer.first <= last:
            apart.append(msgspec.structs.replace(buffer, last=last))
    return tuple(reversed(apart))


def _labels(program: Program) -> tuple[str, ...]:
    """An event is named after the work before it."""
    labels: list[str] = []
    for command in program.commands:
        is_event = isinstance(command, Record | Await)
        labels.append((labels[-1] if labels else "") if is_event else short(command.label))
    return tuple(labels)


def module_of(label: str) -> str:
    """`h.3.attn, backward` is of `h.3`; a path without a layer's number is of its first module."""
    path = re.split(r"[,#( ]", label, maxsplit=1)[0]
    layer = _LAYER.match(path)
    return layer[0] if layer else path.partition(".")[0] or _NO_MODULE


def _by_module(buffers: Iterable[Buffer]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for buffer in buffers:
        found[module_of(buffer.label)] += buffer.range.length
    return dict(found.most_common())
