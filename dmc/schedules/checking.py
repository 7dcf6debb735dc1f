"""Whether a table is a schedule: every action once, on its stage's rank, and no rank waiting for ever."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping

from dmc.errors import PlanError
from dmc.schedules.dependencies import in_order
from dmc.schedules.table import Action, Table


def check(table: Table, stages: int, microbatches: int) -> None:
    """Refuses a table that is no schedule of a model of `stages` stages for `microbatches` micro-batches.

    Raises PlanError for an action that is missing, twice, on two ranks, of a stage or micro-batch that does not exist,
    a backward that is also split in two or before its forward, a gradient of weights before that of inputs, a deadlock.
    """
    _check_stages(table, stages)
    places: dict[Action, tuple[int, int]] = {}
    for rank, column, action in table.cells():
        place = f"rank {rank}, column {column}, {action.in_words()}"
        _check_cell(table, place, rank, action, stages, microbatches)
        if action in places:
            fact = f"stands twice, first in column {places[action][1]}"
            raise PlanError(place, fact, hint="every action runs once: delete one of the two")
        places[action] = rank, column
    for stage in range(stages):
        for micro in range(microbatches):
            _check_complete(places, table.ranks_of[stage], stage, micro)
    deque(in_order(table), maxlen=0)


def _check_stages(table: Table, stages: int) -> None:
    if table.stages != stages:
        hint = f"cut the model at {table.stages - 1} places, or give a table with actions of stages 0 to {stages - 1}"
        raise PlanError("schedule", f"the table has {_counted(table.stages)}, the model {_counted(stages)}", hint)
    for stage, rank in enumerate(table.ranks_of):
        if not 0 <= rank < table.ranks:
            fact = f"is on rank {rank}, and the table has {table.ranks} rows"
            raise PlanError(f"stage {stage}", fact, hint="give it one of the ranks with a row")
    for rank in range(table.ranks):
        if not table.row(rank):
            raise PlanError(f"rank {rank}", "has no action", hint="give it a stage, or leave the row out")


def _counted(stages: int) -> str:
    return f"{stages} stage" if stages == 1 else f"{stages} stages"


def _check_cell(table: Table, place: str, rank: int, action: Action, stages: int, microbatches: int) -> None:
    if not 0 <= action.stage < stages:
        raise PlanError(place, f"there is no stage {action.stage}", hint=f"stages are 0 to {stages - 1}")
    if not 0 <= action.micro < microbatches:
        hint = f"micro-batches are 0 to {microbatches - 1}"
        raise PlanError(place, f"there is no micro-batch {action.micro}", hint=hint)
    if rank != (owner := table.ranks_of[action.stage]):
        fact = f"stage {action.stage} is on rank {owner} and has an action on rank {rank}"
        raise PlanError(place, fact, hint=f"move the action to row {owner}: a stage is on one rank")


def _check_complete(places: Mapping[Action, tuple[int, int]], rank: int, stage: int, micro: int) -> None:
    forward, whole, inputs, weights = (Action(kind, stage, micro) for kind in ("F", "B", "I", "W"))
    if whole in places:
        for part in (inputs, weights):
            if part in places:
                fact = f"stands beside {whole}, which is the same work"
                hint = f"keep {whole}, or {inputs} and {weights}"
                raise PlanError(f"rank {rank}, column {places[part][1]}, {part.in_words()}", fact, hint)
        order = (forward, whole)
    else:
        order = (forward, inputs, weights)
    for action in order:
        if action not in places:
            gradient = action is inputs and weights not in places
            hint = f"add {whole}, or {inputs} and {weights}" if gradient else f"add {action} to row {rank}"
            raise PlanError(f"rank {rank}, {(whole if gradient else action).in_words()}", "is missing", hint)
    for before, after in itertools.pairwise(order):
        if places[after] < places[before]:
            place = f"rank {rank}, column {places[after][1]}, {after.in_words()}"
            fact = f"stands before {before} in column {places[before][1]}"
            raise PlanError(place, fact, hint=f"{after} needs what {before} computes: move it behind")
