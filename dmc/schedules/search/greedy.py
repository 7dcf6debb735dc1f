"""Rows made forward in time: each rank takes the best action at hand, and gradients of weights fill its gaps.

After the heuristic of Qi et al. 2023, arXiv:2401.10241: forward passes up to a limit, then forward and gradient of
inputs in turn; the oldest gradient of weights in gaps that are long enough, and wherever memory is full. Of several
stages on a rank, the last one's forward goes first.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from typing import Literal, TypeAlias

from dmc.schedules.search.problem import SLACK, Problem, Rows

_FORWARD, _INPUTS, _WEIGHTS = range(3)


Prefer: TypeAlias = Literal["F", "I", "turns"]


@dataclasses.dataclass(frozen=True)
class Rules:
    """How a rank chooses.

    ahead: by rank, how many forward passes may be ahead of gradients of inputs, of all its stages together.
    prefer: of a forward and a gradient of inputs at hand, the one, the other, or both in turn.
    gap: a gradient of weights fills a gap that is at least so much of its time.
    """

    ahead: tuple[float, ...]
    prefer: Prefer
    gap: float


def greedy(problem: Problem, rules: Rules) -> Rows:
    """The rows that the rules make. Every rank stays under its cap, and none waits for ever."""
    state = _State(problem, rules)
    # Times at which a rank has something new to choose from: its action has ended, or a result arrives.
    events = [(0.0, rank) for rank in range(problem.ranks)]
    while events:
        time, rank = heapq.heappop(events)
        if state.free[rank] <= time and (number := state.choose(rank, time)) is not None:
            state.run(rank, number, time)
            end = state.free[rank]
            heapq.heappush(events, (end, rank))
            if (receiver := problem.receivers[number]) is not None:
                heapq.heappush(events, (end + receiver[1], receiver[0]))
    return state.rows


class _State:
    """A time in the making of rows: what each stage has done, what each rank keeps, when each result arrives."""

    def __init__(self, problem: Problem, rules: Rules) -> None:
        self.rows: Rows = [[] for _ in range(problem.ranks)]
        self.free = [0.0] * problem.ranks
        self._problem = problem
        self._rules = rules
        self._kept = [0.0] * problem.ranks
        self._ends = [math.inf] * len(problem.times)
        self._done = [[0] * problem.stages for _ in range(3)]
        self._stages = [problem.stages_on(rank) for rank in range(problem.ranks)]
        # By rank and micro-batch: what it keeps, and what its forward passes that have not run will keep.
        self._held = [[0.0] * problem.microbatches for _ in self._stages]
        self._missing = [
            [float(sum(map(problem.costs.kept_by, stages)))] * problem.microbatches for stages in self._stages
        ]
        self._last_was_inputs = [False] * problem.ranks

    def run(self, rank: int, number: int, start: float) -> None:
        problem = self._problem
        kind, stage = problem.kind_and_stage(number)
        self.free[rank] = self._ends[number] = start + problem.times[number]
        self.rows[rank].append(number)
        keeps, micro = problem.keeps[number], number % problem.microbatches
        self._kept[rank] += keeps
        self._held[rank][micro] += keeps
        self._missing[rank][micro] -= keeps if kind == _FORWARD else 0.0
        self._done[kind][stage] += 1
        if kind != _WEIGHTS:
            self._last_was_inputs[rank] = kind == _INPUTS

    def choose(self, rank: int, time: float) -> int | None:
        """The number of the action that a rank starts now, None to wait."""
        forward, later_forward, is_full = self._forward(rank, time)
        inputs, later_inputs = self._inputs(rank, time)
        weights = self._weights(rank)
        if inputs is not None and (forward is None or self._takes_inputs(rank)):
            return inputs
        if forward is not None:
            return forward
        if weights is not None:
            gap = min(later_forward, later_inputs) - time
            if is_full or gap >= self._rules.gap * self._problem.times[weights]:
                return weights
        return None

    def _takes_inputs(self, rank: int) -> bool:
        ahead = sum(self._done[_FORWARD][stage] - self._done[_INPUTS][stage] for stage in self._stages[rank])
        if ahead >= self._rules.ahead[rank] or self._rules.prefer == "I":
            return True
        return self._rules.prefer == "turns" and not self._last_was_inputs[rank]

    def _forward(self, rank: int, time: float) -> tuple[int | None, float, bool]:
        """The forward at hand, when another one arrives, and whether one at hand waits for memory."""
        problem, found, later, is_full = self._problem, [], math.inf, False
        ahead = sum(self._done[_FORWARD][stage] - self._done[_INPUTS][stage] for stage in self._stages[rank])
        for stage in self._stages[rank]:
            micro = self._done[_FORWARD][stage]
            if micro == problem.microbatches:
                continue
            number = problem.number(_FORWARD, stage, micro)
            arrival = self._arrival(number)
            if not self._has_room(rank, stage, micro):
                is_full = is_full or arrival <= time
            elif ahead >= self._rules.ahead[rank] and not self._is_oldest(rank, micro):
                continue
            elif arrival <= time:
                found.append((-stage, number))
            else:
                later = min(later, arrival)
        return (min(found)[-1] if found else None), later, is_full

    def _inputs(self, rank: int, time: float) -> tuple[int | None, float]:
        problem, found, later = self._problem, [], math.inf
        for stage in self._stages[rank]:
            micro = self._done[_INPUTS][stage]
            if micro == problem.microbatches:
                continue
            number = problem.number(_INPUTS, stage, micro)
            if (arrival := self._arrival(number)) <= time:
                found.append((micro, -stage, number))
            else:
                later = min(later, arrival)
        return (min(found)[-1] if found else None), later

    def _weights(self, rank: int) -> int | None:
        done = self._done
        ready = [(done[_WEIGHTS][s], -s) for s in self._stages[rank] if done[_WEIGHTS][s] < done[_INPUTS][s]]
        if not ready:
            return None
        micro, stage = min(ready)
        return self._problem.number(_WEIGHTS, -stage, micro)

    def _arrival(self, number: int) -> float:
        """When all that an action needs is on its rank; infinite while that is not known."""
        latest = 0.0
        for need, delay in self._problem.needs[number]:
            latest = max(latest, self._ends[need] + delay)
        return latest

    def _is_oldest(self, rank: int, micro: int) -> bool:
        return micro == self._oldest(rank)

    def _oldest(self, rank: int) -> int:
        """The first micro-batch that a rank has not finished."""
        return min(self._done[_WEIGHTS][stage] for stage in self._stages[rank])

    def _has_room(self, rank: int, stage: int, micro: int) -> bool:
        """Whether after a forward the micro-batches under way can still go through all stages of the rank in order."""
        own, cap = self._problem.costs.kept_by(stage), self._problem.caps[rank] * (1 + SLACK)
        kept = self._kept[rank] + own
        if len(self._stages[rank]) == 1 or kept > cap:
            return kept <= cap
        held, missing = self._held[rank], self._missing[rank]
        for each in range(self._oldest(rank), micro):
            if kept + missing[each] > cap:
                return False
            kept -= held[each]
        return kept + missing[micro] - own <= cap
