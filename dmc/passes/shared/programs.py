"""The programs of a `dmc.program.Job` as ops `dm.program`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.program import Await, Class, Collective, Command, Job, Launch, Move, Program, Range, Record, Work


def write_program(job: Job, own: Class, locations: Iterable[ir.Location], mesh: str = "mesh") -> dm.ProgramOp:
    """Builds the `dm.program` of a class at the current insertion point. Raises DmcError where it violates a rule.

    locations: those of its launches, moves and collectives, in order; an event belongs to the work before it. mesh: the
    name of the module's.
    """
    listed = frozenset(channel.name for channel in job.channels if channel.groups)
    return dm.program(own.ranks, lambda: _Writer(listed, mesh).fill(own.program, iter(locations)))


@dataclass(frozen=True)
class _Writer:
    """One program. A range is the address of what several commands write and read, and is made and checked once.

    listed: the channels that list their groups.
    """

    listed: frozenset[str]
    mesh: str
    ranges: dict[Range, dm.RangeAttr] = field(default_factory=dict)

    def fill(self, program: Program, locations: Iterator[ir.Location]) -> None:
        for space, size in program.arenas.items():
            dm.arena(sym_name=space, space=space, bytes=size)
        for lane in program.lanes:
            dm.lane(sym_name=lane.name, queue=lane.queue, channel=lane.channel)
        for slot in program.slots:
            type_ = ir.RankedTensorType.get(list(slot.shape), ir.Type.parse(slot.dtype))
            dm.slot(name=slot.name, role=slot.role, type=type_, range=self._range(slot.range))
        for buffer in program.buffers:
            where = self._range(buffer.range)
            dm.buffer(label=buffer.label, category=buffer.category, range=where, first=buffer.first, last=buffer.last)
        names = [lane.name for lane in program.lanes]
        here = ir.Location.current
        for command in program.commands:
            here = here if isinstance(command, Record | Await) else next(locations)
            with here:
                self._write(command, names[command.lane])

    def _write(self, command: Command, lane: str) -> None:
        match command:
            case Launch():
                dm.launch(
                    lane=lane,
                    kernel=command.kernel,
                    reads=[self._range(each) for each in command.reads],
                    writes=[self._range(each) for each in command.writes],
                    scratch=self._optional(command.scratch),
                    label=command.label or None,
                    slices=_slices(command),
                    variants=None if command.variants is None else list(command.variants.kernels),
                    group=None if command.variants is None else dm.group(self.mesh, command.variants.axes),
                    action=command.action or None,
                )
            case Move():
                source, target = self._range(command.source), self._range(command.target)
                slices = _slices(command)
                dm.move(lane=lane, source=source, target=target, label=command.label or None, slices=slices)
            case Collective():
                self._write_collective(command, lane)
            case Record():
                dm.record(lane=lane, event=command.event)
            case Await():
                dm.await_(lane=lane, event=command.event)

    def _write_collective(self, command: Collective, lane: str) -> None:
        accumulate = None if command.accumulate is None else ir.Type.parse(command.accumulate)
        dm.collective(
            lane=lane,
            kind=command.kind,
            ranks=list(command.ranks) if command.channel in self.listed else None,
            instance=command.instance,
            type=ir.Type.parse(command.dtype),
            count=command.count,
            source=self._optional(command.source),
            target=self._optional(command.target),
            reduction=command.reduction,
            accumulate=accumulate,
            peer=command.peer,
            pairs=[rank for pair in command.pairs for rank in pair] or None,
            label=command.label or None,
            slices=_slices(command),
            action=command.action or None,
        )

    def _range(self, where: Range) -> dm.RangeAttr:
        found = self.ranges.get(where)
        if found is None:
            found = self.ranges[where] = dm.byte_range(where.space, where.offset, where.length)
        return found

    def _optional(self, where: Range | None) -> Any:
        return None if where is None else self._range(where)


def _slices(command: Work) -> list[dm.SliceAttr] | None:
    return [dm.slice_of(each.read, each.strides) for each in command.slices] or None
