"""The schedules that have a name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from dmc.errors import PlanError
from dmc.schedules import split, whole
from dmc.schedules.dependencies import in_order, needs, provides
from dmc.schedules.table import Action, Table, in_a_loop, in_a_v


@dataclasses.dataclass(frozen=True)
class _Named:
    """row: of rank, ranks, micro-batches and chunks. most_chunks: None where any number will do.

    in_rounds: as many micro-batches as ranks go together. least_rounds: how many times as many there are at least.
    """

    row: Callable[[int, int, int, int], list[Action]]
    least_chunks: int = 1
    most_chunks: int | None = 1
    shape: Literal["loop", "v"] = "loop"
    in_rounds: bool = False
    least_rounds: int = 0


_NAMED: Mapping[str, _Named] = {
    "gpipe": _Named(whole.gpipe),
    "1f1b": _Named(whole.one_forward_one_backward),
    "interleaved": _Named(whole.interleaved, least_chunks=2, most_chunks=None, in_rounds=True),
    "bfs": _Named(whole.breadth_first, most_chunks=None),
    "zb-h1": _Named(split.zero_bubble_h1),
    "zb-h2": _Named(split.zero_bubble_h2),
    "zb-v": _Named(split.zero_bubble_v, least_chunks=2, most_chunks=2, shape="v"),
    "dualpipev": _Named(split.dual_pipe_v, least_chunks=2, most_chunks=2, shape="v", least_rounds=2),
}

NAMES = tuple(_NAMED)
"""The names that `schedule` knows."""

SEARCHED = "searched"
"""The name of a schedule that is made for the times of stages (`searched_by_name`)."""


def schedule(name: str, ranks: int, microbatches: int, chunks: int = 1) -> Table:
    """The table of a named schedule, idle cells as if every action took the same time.

    chunks: the stages of each rank. Raises PlanError for an unknown name and for numbers that the schedule cannot have.
    """
    if name not in _NAMED:
        raise PlanError(f"schedule '{name}'", "is unknown", hint=f"use one of {', '.join(NAMES)}, or a CSV file")
    named = _NAMED[name]
    for count, what in ((ranks, "ranks"), (microbatches, "micro-batches"), (chunks, "chunks")):
        if count < 1:
            raise PlanError(f"schedule '{name}'", f"has {count} {what}", hint="give at least 1")
    _check_chunks(name, named, chunks)
    _check_microbatches(name, named, ranks, microbatches)
    ranks_of = in_a_v(ranks) if named.shape == "v" else in_a_loop(ranks, chunks)
    return laid_out([named.row(rank, ranks, microbatches, chunks) for rank in range(ranks)], ranks_of)


def laid_out(rows: Sequence[Sequence[Action]], ranks_of: Sequence[int]) -> Table:
    """A table with idle cells where a rank waits if every action takes one cell. Raises PlanError for a deadlock."""
    table = Table(tuple(map(tuple, rows)), tuple(ranks_of))
    cells: list[list[Action | None]] = [[] for _ in rows]
    columns: dict[Action, int] = {}
    for rank, action in in_order(table):
        first = max((1 + columns[need] for need in needs(action, table.stages)), default=0)
        cells[rank] += [None] * (first - len(cells[rank]))
        columns[provides(action)] = len(cells[rank])
        cells[rank].append(action)
    return Table(tuple(map(tuple, cells)), table.ranks_of)


def _check_chunks(name: str, named: _Named, chunks: int) -> None:
    least, most = named.least_chunks, named.most_chunks
    if chunks < least:
        hint = f"pass chunks={least}" + (", or use zb-h1" if most == least else " or more, or use 1f1b")
        raise PlanError(f"schedule '{name}'", f"has {chunks} chunk on each rank, and needs {least}", hint)
    if most is not None and chunks > most:
        hint = f"pass chunks={most}, or use interleaved or bfs, which have any number"
        raise PlanError(f"schedule '{name}'", f"has {chunks} chunks on each rank, and can have {most}", hint)


def _check_microbatches(name: str, named: _Named, ranks: int, microbatches: int) -> None:
    if named.in_rounds and microbatches % ranks:
        fewer, more = microbatches - microbatches % ranks, microbatches + ranks - microbatches % ranks
        hint = f"use {f'{fewer} or ' if fewer else ''}{more} micro-batches, or bfs, which has any number"
        fact = f"has {microbatches} micro-batches, which are not whole rounds of {ranks} ranks"
        raise PlanError(f"schedule '{name}'", fact, hint)
    if microbatches < (least := named.least_rounds * ranks):
        fact = f"has {microbatches} micro-batches, and needs {least} on {ranks} ranks"
        raise PlanError(
            f"schedule '{name}'", fact, hint=f"use {least} micro-batches or more, or zb-v, which has any number"
        )
