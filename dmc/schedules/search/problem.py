"""What is searched for: rows that take the shortest time under a cap, with actions as numbers for speed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TypeAlias

from dmc.schedules.costs import Costs
from dmc.schedules.table import Action, Kind, Table, stages_of

KINDS: tuple[Kind, ...] = ("F", "I", "W")
"""The kinds of a searched row: a backward is its two halves."""

Rows: TypeAlias = list[list[int]]
"""By rank, the numbers of its actions in order."""

SLACK = 1e-9
"""What a sum of floats may be off, of its value."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """The stages' costs and ranks, the micro-batches, and what each rank may keep (`Played.peak`).

    barrier: the time is the makespan, else the period. Micro-batches are alike, so each stage takes them in order: any
    other order of them takes as long.
    """

    costs: Costs
    ranks_of: tuple[int, ...]
    microbatches: int
    caps: tuple[float, ...]
    barrier: bool

    @property
    def ranks(self) -> int:
        """The number of pipeline ranks."""
        return len(self.caps)

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.ranks_of)

    def number(self, kind: int, stage: int, micro: int) -> int:
        """The number of an action: those of a kind and stage follow each other."""
        return (kind * self.stages + stage) * self.microbatches + micro

    def kind_and_stage(self, number: int) -> tuple[int, int]:
        """The kind, a position in KINDS, and the stage of a number."""
        return divmod(number // self.microbatches, self.stages)

    def action(self, number: int) -> Action:
        """The action of a number."""
        kind, stage = self.kind_and_stage(number)
        return Action(KINDS[kind], stage, number % self.microbatches)

    @functools.cached_property
    def actions(self) -> tuple[Action, ...]:
        """The action of each number."""
        return tuple(self.action(number) for number in range(3 * self.stages * self.microbatches))

    @functools.cached_property
    def times(self) -> tuple[float, ...]:
        """The time of each action."""
        return tuple(self.costs.time(action) for action in self.actions)

    @functools.cached_property
    def keeps(self) -> tuple[float, ...]:
        """What each action adds to what its rank keeps: at its start where it is more than 0, else at its end."""
        return tuple(
            self.costs.kept_by(action.stage) if action.kind == "F" else -self.costs.freed(action)
            for action in self.actions
        )

    @functools.cached_property
    def needs(self) -> tuple[tuple[tuple[int, float], ...], ...]:
        """By action, what it waits for, with the time of the message."""
        return tuple(self._needs(action) for action in self.actions)

    def _needs(self, action: Action) -> tuple[tuple[int, float], ...]:
        kind, stage, micro = KINDS.index(action.kind), action.stage, action.micro
        found = [(self.number(kind - 1, stage, micro), 0.0)] if kind > 0 else []
        other = stage + (-1, 1, 0)[kind]
        if kind < 2 and 0 <= other < self.stages:
            delay = 0.0 if self.ranks_of[other] == self.ranks_of[stage] else self.costs.message
            found.append((self.number(kind, other, micro), delay))
        return tuple(found)

    @functools.cached_property
    def receivers(self) -> tuple[tuple[int, float] | None, ...]:
        """By action, the other rank that waits for it and the time of the message."""
        receivers: list[tuple[int, float] | None] = [None] * len(self.actions)
        for action, needs in zip(self.actions, self.needs, strict=True):
            rank = self.ranks_of[action.stage]
            for need, delay in needs:
                if self.ranks_of[self.actions[need].stage] != rank:
                    receivers[need] = rank, delay
        return tuple(receivers)

    def stages_on(self, rank: int) -> tuple[int, ...]:
        """The stages of a rank."""
        return stages_of(self.ranks_of, rank)

    def fits(self, row: Sequence[int], rank: int) -> bool:
        """Whether a row keeps no more than its rank may."""
        kept, cap = 0.0, self.caps[rank] * (1 + SLACK)
        for number in row:
            kept += self.keeps[number]
            if kept > cap:
                return False
        return True

    @functools.cached_property
    def bound(self) -> float:
        """A time that no rows can beat: the work of a rank, and for the makespan what must come before it."""
        costs, bounds = self.costs, [0.0]
        for rank in range(self.ranks):
            own = self.stages_on(rank)
            times = (costs.forward, costs.backward_inputs, costs.backward_weights)
            work = self.microbatches * sum(each[stage] for each in times for stage in own)
            bounds.append(work + (self._before(own[0]) if self.barrier else 0.0))
        return max(bounds)

    def _before(self, stage: int) -> float:
        """The time until a first micro-batch arrives at a stage."""
        crossings = sum(self.ranks_of[each] != self.ranks_of[each + 1] for each in range(stage))
        return sum(self.costs.forward[:stage]) + crossings * self.costs.message

    def rows_of(self, table: Table) -> Rows:
        """The rows of a table, each backward in two halves."""
        rows: Rows = []
        for rank in range(table.ranks):
            row: list[int] = []
            for kind, stage, micro in table.row(rank):
                parts = ("I", "W") if kind == "B" else (kind,)
                row += [self.number(KINDS.index(part), stage, micro) for part in parts]
            rows.append(row)
        return rows
