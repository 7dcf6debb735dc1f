"""A plan whose ranks give each other nothing: what remains of its step is what movements do not cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from dmc.program import Collective, Job, Move, Range


def without_others(job: Job) -> Job:
    """The job in which each rank copies its own part instead of moving what others hold.

    Without copies tensors would be zeros, with which kernels take less power, and so less time. Movements of integers
    stay: without the tokens of other ranks, all rows of an embedding's gradient would be one.
    """
    return job.mapped(lambda each: replace(each, commands=tuple(_own(each.commands)), buffers=()))


def _own(commands: Sequence[Any]) -> Iterator[Any]:
    for each in commands:
        if not isinstance(each, Collective) or each.dtype.startswith("i"):
            yield each
        elif each.source is not None and each.target is not None:
            yield from _copies(each, each.source, each.target)


def _copies(movement: Collective, source: Range, target: Range) -> Iterator[Move]:
    """A rank's own part in all of the target: a gathered tensor is full of it."""
    end, length = target.offset + target.length, min(source.length, target.length)
    for offset in range(target.offset, end, length):
        size = min(length, end - offset)
        own, there = Range(source.space, source.offset, size), Range(target.space, offset, size)
        if own != there:
            yield Move(movement.lane, own, there, movement.label)
