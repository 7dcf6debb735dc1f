"""Regions of the forward pass: values that the backward pass reads, and what they can be made from again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from dmc._mlir import ir
from dmc.analysis.kernels.cheap import cheap_reads, is_cheap
from dmc.analysis.requests.keeping import Word, root_of
from dmc.dialect.labels import module_path
from dmc.dialect.plan import type_bytes
from dmc.passes.shared.step import Step, base_of

# Smaller values are kept. Larger arguments are in memory anyway, but take long to read again.
_SMALL = 1 << 16


@dataclass(frozen=True)
class Region:
    """Values that depend on each other through cheap operations.

    made: by value that can be made again, the values that its maker reads. roots: the others. saved: what the backward
    pass reads of both.
    """

    made: Mapping[ir.Value, tuple[ir.Value, ...]]
    roots: tuple[ir.Value, ...]
    saved: tuple[ir.Value, ...]

    @property
    def order(self) -> tuple[ir.Value, ...]:
        """All values."""
        return (*self.made, *self.roots)


def regions_of(step: Step, words: Sequence[Word], sums: Collection[ir.Value]) -> list[Region]:
    """The regions with values that can be made again, in order, without those of modules that `words` mention.

    sums: the residual sums that can be made again. Linear: a value belongs to one region, unless it is small.
    """
    reads = _makers(step, words, sums)
    near: dict[ir.Value, list[ir.Value]] = {value: list(read) for value, read in reads.items()}
    for value, read in reads.items():
        for each in read:
            near.setdefault(each, []).append(value)
    seen: set[ir.Value] = set()
    regions: list[Region] = []
    for start in reads:
        if start not in seen:
            found = _reached(start, near)
            seen.update(found)
            roots = tuple(value for value in found if value not in reads)
            saved = tuple(value for value in found if value in step.readers)
            regions.append(Region({value: reads[value] for value in found if value in reads}, roots, saved))
    return regions


def _reached(start: ir.Value, near: Mapping[ir.Value, Sequence[ir.Value]]) -> list[ir.Value]:
    found = {start: None}
    pending = [start]
    while pending:
        value = pending.pop()
        for each in () if _is_small(value) else near[value]:
            if each not in found:
                found[each] = None
                pending.append(each)
    return list(found)


def _makers(step: Step, words: Sequence[Word], sums: Collection[ir.Value]) -> dict[ir.Value, tuple[ir.Value, ...]]:
    """By value that the backward pass reads, or needs to make what it reads, what its cheap maker reads."""
    made: dict[ir.Value, tuple[ir.Value, ...]] = {}
    pending = list(step.readers)
    while pending:
        value = pending.pop()
        if value not in made and _may_be_made(value, step, words, sums):
            read = dict.fromkeys(base_of(each) for each in cheap_reads(value.owner.operation))
            made[value] = tuple(each for each in read if each not in step.constants)
            pending += made[value]
    return made


def _may_be_made(value: ir.Value, step: Step, words: Sequence[Word], sums: Collection[ir.Value]) -> bool:
    if isinstance(value.owner, ir.Block) or _is_small(value):
        return False
    op = value.owner.operation
    if not is_cheap(op) or (step.is_join(op) and value not in sums):
        return False
    if any(isinstance(each.owner, ir.Block) and not _is_small(each) for each in map(base_of, cheap_reads(op))):
        return False
    module, _, checkpoint = module_path(op.location).partition(", ")
    return not checkpoint and all(root_of(word, module) is None for word in words)


def _is_small(value: ir.Value) -> bool:
    return not isinstance(value.type, ir.RankedTensorType) or type_bytes(value.type) < _SMALL
