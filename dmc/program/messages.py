"""The messages between the stages of a pipeline, as the ledger lists them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from dmc.program.job import Job
from dmc.program.movements import Entry, Movements
from dmc.program.program import Collective, Program
from dmc.program.sizes import element_bytes

T = TypeVar("T", bound=Movements)
# What requires them.
_WHY = "pipeline"


def with_messages(movements: T, job: Job) -> T:
    """The movements, and behind them the messages of a job, in the order of ranks and of their programs.

    movements: of one rank's program before it is divided into stages.
    """
    axes, entries = {channel.name: channel.axes for channel in job.channels}, list[Entry]()
    ranks = dict(enumerate(movements.ranks))
    for own in job.classes:
        for each in _sent(own.program):
            size = each.count * element_bytes(each.dtype)
            for rank in own.ranks:
                ranks[rank] = ranks.get(rank, 0) + size
            entries.append(
                Entry(
                    kind=each.kind,
                    tensor=each.label,
                    dtype=each.dtype,
                    shape=(each.count,),
                    axes=axes[each.channel],
                    group=len(each.ranks),
                    bytes=size * len(own.ranks),
                    why=_WHY,
                    label=each.label,
                )
            )
    if not entries:
        return movements
    sent = tuple(ranks[rank] for rank in sorted(ranks))
    return replace(movements, entries=(*movements.entries, *entries), ranks=sent)


def _sent(program: Program) -> Iterator[Collective]:
    return (each for each in program.commands if isinstance(each, Collective) and each.kind == "send")
