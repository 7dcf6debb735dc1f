"""What of a region is kept, and what is made again from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.dialect.plan import type_bytes
from dmc.passes.scheduled.tensors.recompute.flow import ENDLESS, Edge, sink_side
from dmc.passes.scheduled.tensors.recompute.regions import Region
from dmc.passes.shared.step import Step, is_loop

# More may be moved than is freed by this share: statistics and weights beside a large tensor.
_SLACK = 16
# What only passes through a kernel of the forward pass is kept only if it is smaller by this share: it must be written.
_NARROWER = 4


@dataclass(frozen=True)
class Cut:
    """A minimum cut between the forward and the backward pass through a region.

    again: what the backward pass makes again. gone: what of that, and on the way to it, is held between the passes
    without this pass. kept: what it makes that from. freed: bytes that are no longer held between the passes. moved:
    bytes that are read and written in addition.
    """

    again: tuple[ir.Value, ...]
    gone: tuple[ir.Value, ...]
    kept: tuple[ir.Value, ...]
    freed: int
    moved: int

    @property
    def pays(self) -> bool:
        """Whether it moves no more than it frees."""
        return self.moved <= self.freed + self.freed // _SLACK


def cut_of(step: Step, region: Region, sums: Collection[ir.Value]) -> Cut | None:
    """The cut with the fewest bytes; None if it is none with fewer than without this pass.

    Loops of the backward pass make again what they read (dm-recompute), so that only what something else reads is held
    without this pass, and `sums`, which loops of the forward pass read too. What makes that again shares a kernel with
    such loops: only what these do not read is an additional read.
    """
    products = {value for value in region.saved if not all(map(is_loop, step.readers[value]))}
    fixed = [value for value in region.order if value in products or value in sums]
    before, _ = _cut(step, region, fixed)
    held, side = _cut(step, region, ())
    gone = tuple(value for value in fixed if value in side)
    written = [value for value in gone if value in products]
    freed = sum(map(_bytes, before)) - sum(map(_bytes, held))
    if not gone or freed <= 0:
        return None
    again = tuple(value for value in region.saved if value in side)
    in_loops = [value for value in region.saved if any(map(is_loop, step.readers[value]))]
    new = [value for value in held - before if not step.is_written(value)]
    read = _sources(region, written, side) - _sources(region, in_loops, side)
    moved = sum(map(_bytes, (*written, *new, *read)))
    kept = _sources(region, again, side)
    return Cut(again, gone, tuple(value for value in region.order if value in kept), freed, moved)


def _cut(step: Step, region: Region, fixed: Collection[ir.Value]) -> tuple[set[ir.Value], set[ir.Value]]:
    """The values that a minimum cut keeps, and those that the backward pass then makes. fixed: kept in any case."""
    numbers = {value: number for number, value in enumerate(region.order)}
    source, sink = 2 * len(numbers), 2 * len(numbers) + 1
    starts = ((source, 2 * numbers[value], ENDLESS) for value in fixed)
    reached = sink_side([*_edges(step, region, numbers, source, sink), *starts], source, sink)
    made = {value for value, number in numbers.items() if 2 * number in reached}
    return {value for value, number in numbers.items() if 2 * number + 1 in reached and value not in made}, made


def _edges(step: Step, region: Region, numbers: Mapping[ir.Value, int], source: int, sink: int) -> Iterator[Edge]:
    """A value is an edge from 2n to 2n + 1: it is kept if that edge is cut."""
    for value, number in numbers.items():
        extra = 0 if step.is_written(value) else _bytes(value) // _NARROWER
        yield 2 * number, 2 * number + 1, _bytes(value) + extra
    for value, read in region.made.items():
        yield from ((2 * numbers[each] + 1, 2 * numbers[value], ENDLESS) for each in read)
    yield from ((source, 2 * numbers[value], ENDLESS) for value in region.roots)
    yield from ((2 * numbers[value] + 1, sink, ENDLESS) for value in region.saved)


def _sources(region: Region, values: Iterable[ir.Value], side: Collection[ir.Value]) -> set[ir.Value]:
    """The kept values from which `values` are made."""
    found: set[ir.Value] = set()
    seen: set[ir.Value] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value in side and value not in seen:
            pending += region.made[value]
        elif value not in side:
            found.add(value)
        seen.add(value)
    return found


def _bytes(value: ir.Value) -> int:
    """The bytes that keeping a value takes; arguments are kept anyway."""
    is_free = isinstance(value.owner, ir.Block) or not isinstance(value.type, ir.RankedTensorType)
    return 0 if is_free else type_bytes(value.type)
