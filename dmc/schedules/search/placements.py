"""Which ranks stages may be on, and whether a cap leaves room for a micro-batch there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from dmc.errors import PlanError
from dmc.schedules.costs import Costs
from dmc.schedules.search.problem import SLACK
from dmc.schedules.table import in_a_loop, in_a_v, stages_of

RanksOf: TypeAlias = tuple[int, ...]


def caps_of(ranks: int, memory: float | Sequence[float] | None) -> tuple[float, ...]:
    """The cap of each rank. Raises PlanError for another number of caps than ranks."""
    if memory is None or isinstance(memory, int | float):
        return (math.inf if memory is None else float(memory),) * ranks
    if len(memory) != ranks:
        raise PlanError("searched", f"memory has {len(memory)} caps for {ranks} ranks", hint="give one, or one a rank")
    return tuple(map(float, memory))


def placements(stages: int, ranks: int) -> list[RanksOf]:
    """A loop, and with two stages on each rank a V. Raises PlanError for stages that cannot be dealt out evenly."""
    if ranks < 1 or stages < ranks or stages % ranks:
        hint = f"cut the model in {max(1, ranks)} stages, or a multiple of that"
        raise PlanError("searched", f"{stages} stages cannot be dealt out evenly to {ranks} ranks", hint)
    loop = in_a_loop(ranks, stages // ranks)
    return [loop, in_a_v(ranks)] if stages == 2 * ranks and ranks > 1 else [loop]


def checked(stages: int, ranks: int, ranks_of: Sequence[int]) -> RanksOf:
    """A placement of a caller. Raises PlanError where it is of other stages or leaves a rank out."""
    if len(ranks_of) != stages or set(ranks_of) != set(range(ranks)):
        hint = f"give each of {stages} stages one of the ranks 0 to {ranks - 1}, and each rank a stage"
        raise PlanError("searched", f"ranks_of is {tuple(ranks_of)}", hint)
    return tuple(ranks_of)


def that_fit(costs: Costs, given: Sequence[RanksOf], caps: Sequence[float]) -> list[RanksOf]:
    """The placements under whose caps there is a schedule. Raises PlanError with the smallest caps where there is none.

    One micro-batch after the other is the schedule that keeps the least: one in each stage, before its first backward.
    """
    needs = {each: [_least(costs, each, rank) for rank in range(len(caps))] for each in given}
    fitting = [each for each in given if not _beyond(needs[each], caps)]
    if fitting:
        return fitting
    least = min(needs.values(), key=lambda each: max(need - cap for need, cap in zip(each, caps, strict=True)))
    rank = _beyond(least, caps)[0]
    fact = f"keeps at least {least[rank]:g}, one micro-batch in each of its stages, and may keep {caps[rank]:g}"
    smallest = f"{max(least):g} on every rank" if len(set(caps)) == 1 else ", ".join(f"{need:g}" for need in least)
    raise PlanError(f"searched, rank {rank}", fact, hint=f"the smallest memory that can be met is {smallest}")


def _least(costs: Costs, ranks_of: RanksOf, rank: int) -> float:
    return sum(costs.kept_by(stage) for stage in stages_of(ranks_of, rank))


def _beyond(needs: Sequence[float], caps: Sequence[float]) -> list[int]:
    return [rank for rank, cap in enumerate(caps) if needs[rank] > cap * (1 + SLACK)]
