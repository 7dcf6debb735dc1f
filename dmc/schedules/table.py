"""Actions, and tables of them: what each rank of a pipeline does, in order."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["F", "B", "I", "W"]

WORDS: dict[Kind, str] = {
    "F": "forward",
    "B": "backward",
    "I": "gradient of inputs",
    "W": "gradient of weights",
}
"""What each kind of action computes. B of a stage and micro-batch is its I and then its W."""


class Action(NamedTuple):
    """The forward (F), backward (B), gradient of inputs (I) or gradient of weights (W) of a micro-batch in a stage.

    Its string is a cell of a CSV file: `2F0` is the forward of micro-batch 0 in stage 2.
    """

    kind: Kind
    stage: int
    micro: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro}"

    def in_words(self) -> str:
        """The action as errors name it: `2F0, forward of stage 2, micro-batch 0`."""
        return f"{self}, {WORDS[self.kind]} of stage {self.stage}, micro-batch {self.micro}"


@dataclasses.dataclass(frozen=True)
class Table:
    """A schedule: the actions of each pipeline rank in order.

    rows: one for each rank; None is an idle cell, which only a reader sees. ranks_of: the rank that runs each stage.
    """

    rows: tuple[tuple[Action | None, ...], ...]
    ranks_of: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """The number of pipeline ranks."""
        return len(self.rows)

    @property
    def stages(self) -> int:
        """The number of stages, those of all ranks together."""
        return len(self.ranks_of)

    @functools.cached_property
    def microbatches(self) -> int:
        """The number of micro-batches: one more than the greatest that an action names."""
        return 1 + max((action.micro for row in self.rows for action in row if action is not None), default=-1)

    def row(self, rank: int) -> tuple[Action, ...]:
        """The actions of a rank in order, without idle cells."""
        return tuple(action for action in self.rows[rank] if action is not None)

    def cells(self) -> Iterator[tuple[int, int, Action]]:
        """Yields rank, column and action of every cell that is not idle."""
        for rank, row in enumerate(self.rows):
            yield from ((rank, column, action) for column, action in enumerate(row) if action is not None)


def in_a_loop(ranks: int, chunks: int) -> tuple[int, ...]:
    """The ranks of stages that go round: stage s is on rank s modulo the ranks."""
    return tuple(range(ranks)) * chunks


def in_a_v(ranks: int) -> tuple[int, ...]:
    """The ranks of stages that go there and back: two on each rank, the first and the last on rank 0."""
    return (*range(ranks), *reversed(range(ranks)))


def stages_of(ranks_of: Sequence[int], rank: int) -> tuple[int, ...]:
    """The stages of a rank, by number."""
    return tuple(stage for stage, owner in enumerate(ranks_of) if owner == rank)
