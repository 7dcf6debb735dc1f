"""What an action waits for, and an order of all actions of a table in which none waits for a later one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dmc.errors import PlanError
from dmc.schedules.table import Action, Table


def needs(action: Action, stages: int) -> tuple[Action, ...]:
    """The actions that an action waits for. The gradient of inputs stands for a whole backward, too (`provides`)."""
    stage, micro = action.stage, action.micro
    if action.kind == "F":
        return (Action("F", stage - 1, micro),) if stage > 0 else ()
    if action.kind == "W":
        return (Action("I", stage, micro),)
    own = Action("F", stage, micro)
    return (own, Action("I", stage + 1, micro)) if stage + 1 < stages else (own,)


def provides(action: Action) -> Action:
    """What others wait for: of a backward, its gradient of inputs; else the action itself."""
    return Action("I", action.stage, action.micro) if action.kind == "B" else action


def in_order(table: Table) -> Iterator[tuple[int, Action]]:
    """Yields rank and action, each action after those that it needs, the actions of a rank in the order of its row.

    Raises PlanError once every rank that has actions left waits for another.
    """
    rows = [table.row(rank) for rank in range(table.ranks)]
    done: set[Action] = set()
    positions = [0] * len(rows)
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(rows):
            while positions[rank] < len(row) and done.issuperset(needs(row[positions[rank]], table.stages)):
                action = row[positions[rank]]
                done.add(provides(action))
                positions[rank] += 1
                moved = True
                yield rank, action
    waiting = {rank: row[positions[rank]] for rank, row in enumerate(rows) if positions[rank] < len(row)}
    if waiting:
        raise _deadlock(table, waiting, done)


def _deadlock(table: Table, waiting: Mapping[int, Action], done: set[Action]) -> PlanError:
    written = {provides(action): action for _, _, action in table.cells()}
    facts = [f"rank {rank} is done" for rank in range(table.ranks) if rank not in waiting]
    for rank, action in waiting.items():
        missing = [need for need in needs(action, table.stages) if need not in done]
        facts.append(f"rank {rank} in {action} for {_named(missing, written, table.ranks_of)}")
    rank, action = next(iter(waiting.items()))
    return PlanError(
        f"rank {rank}, {action.in_words()}",
        f"a deadlock, every rank waits: {'; '.join(sorted(facts))}",
        hint="move what one rank waits for before what its own rank waits in",
    )


def _named(missing: Sequence[Action], written: Mapping[Action, Action], ranks_of: Sequence[int]) -> str:
    names = [f"{written.get(need, need)} of rank {ranks_of[need.stage]}" for need in missing]
    return " and ".join(names)
