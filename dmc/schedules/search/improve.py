"""Rows improved step by step: an action moves to another place of its row, mostly one that others wait for."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence

from dmc.schedules.search.problem import SLACK, Problem, Rows
from dmc.schedules.search.timing import Timed, timed

# Steps that lose time are taken too, fewer and fewer: as a share of the time, at the start.
_HEAT = 0.003
_FAR = (1, 1, 2, 3, 6, 15)
_RENEWED = 8


def improve(problem: Problem, rows: Rows, tries: int, deadline: float = math.inf) -> Rows:
    """The best rows that so many tries reach from rows without deadlock, at worst those. Draws the same every time.

    deadline: the tries end then, by the clock of `time.monotonic`.
    """
    draw = random.Random(0)
    current = timed(problem, rows)
    assert current is not None
    value = best_value = _value(current)
    best, chain = rows, _chain(problem, rows, current)
    for step in range(tries):
        if best_value[0] <= problem.bound * (1 + SLACK) or time.monotonic() > deadline:
            break
        moved = _moved(problem, rows, chain, draw)
        if moved is None or (found := timed(problem, moved)) is None:
            continue
        new = _value(found)
        loss = sum(new) - sum(value)
        heat = _HEAT * value[0] * (1 - step / tries) ** 2
        if loss <= 0 or (heat > 0 and draw.random() < math.exp(-loss / heat)):
            rows, value = moved, new
            # An old chain still says well enough where to look, and a new one takes as long as a try.
            chain = _chain(problem, rows, found) if step % _RENEWED == 0 else chain
        if new < best_value:
            best, best_value = moved, new
    return best


def _value(found: Timed) -> tuple[float, float]:
    """The time, and a little of all actions' ends, so that steps that only make room count."""
    return found.time, 0.01 * sum(found.ends) / len(found.ends)


def _moved(problem: Problem, rows: Rows, chain: Sequence[tuple[int, int]], draw: random.Random) -> Rows | None:
    """The rows with one action in another place; None where it may not stand there."""
    rank = draw.randrange(len(rows))
    source = draw.randrange(len(rows[rank]))
    if draw.random() < 0.5:
        rank, source = draw.choice(chain)
    row = rows[rank]
    target = source + draw.choice((-1, 1)) * draw.choice(_FAR)
    if not 0 <= target < len(row):
        return None
    changed = list(row)
    changed.insert(target, changed.pop(source))
    low, high = min(source, target), max(source, target)
    if not _is_ordered(problem, changed[low : high + 1], target - low) or not problem.fits(changed, rank):
        return None
    return [*rows[:rank], changed, *rows[rank + 1 :]]


def _is_ordered(problem: Problem, part: Sequence[int], place: int) -> bool:
    """Whether an action that has moved to a place of a part still stands as it must beside the others there."""
    size, stages = problem.microbatches, problem.stages
    number = part[place]
    own, micro = divmod(number, size)
    kind, stage = divmod(own, stages)
    for position, other in enumerate(part):
        group, other_micro = divmod(other, size)
        other_kind, other_stage = divmod(group, stages)
        if other_stage != stage or position == place:
            continue
        is_before = position < place
        if group == own and (other_micro < micro) != is_before:
            return False
        if other_micro == micro and (other_kind < kind) != is_before:
            return False
    return True


def _chain(problem: Problem, rows: Rows, found: Timed) -> list[tuple[int, int]]:
    """The rank and place of each action on a longest chain of actions that wait for each other."""
    ends, times = found.ends, problem.times
    places = {number: (rank, place) for rank, row in enumerate(rows) for place, number in enumerate(row)}
    chain: list[tuple[int, int]] = []
    number = found.last
    while number >= 0:
        rank, place = places[number]
        chain.append((rank, place))
        start = ends[number] - times[number]
        causes = [need for need, delay in problem.needs[number] if ends[need] + delay >= start * (1 - SLACK)]
        if place and ends[rows[rank][place - 1]] >= start * (1 - SLACK):
            causes.append(rows[rank][place - 1])
        number = causes[-1] if causes else -1
    return chain
