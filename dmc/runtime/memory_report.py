"""The memory that a planned step needs, rank by rank, read from its programs: nothing is run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from dmc.program import DEVICE, HOST, Await, Buffer, Job, Program, Range, Record
from dmc.program.categories import CATEGORIES
from dmc.program.labels import short
from dmc.program.offloading import offloaded
from dmc.runtime.rank_memory import RankMemory
from dmc.runtime.report import Report

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class MemoryReport(Report):
    """The memory of all ranks; those with equal programs are one entry."""

    ranks: tuple[RankMemory, ...]

    def parts(self, exact: bool = False) -> Iterable[RenderableType]:
        """Contents of the arena, activations by module, the largest buffers at the peak."""
        from dmc.runtime.memory_table import parts

        return parts(self.ranks, exact)


def report(job: Job) -> MemoryReport:
    """The report on a job. Linear in the number of buffers and commands."""
    alike: dict[tuple[object, ...], list[int]] = {}
    programs: list[Program] = []
    for own in job.classes:
        key = (tuple(own.program.arenas.items()), own.program.buffers)
        if key not in alike:
            programs.append(own.program)
        alike.setdefault(key, []).extend(own.ranks)
    return MemoryReport(
        tuple(_rank_memory(program, ranks) for program, ranks in zip(programs, alike.values(), strict=True))
    )


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
