"""A whole plan's time and memory, from plans of models with few layers.

Time and memory are taken to be linear in the number of layers of each kind, beyond the second: the first hides what the
step begins and ends with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dmc.plans import Plan, ResolvedPlan
from dmc.search.layers import Repeated, optimizer_of, repeated_layers, with_depth
from dmc.search.problem import Problem
from dmc.search.trial import Trial, Trials, with_rows

# So many layers of each kind are planned, and one more.
_DEPTH = 2
# Models with no more layers than this are planned whole.
_SHALLOW = 4
# What whole models are traced by.
_WHOLE = "whole"


@dataclass
class Estimates:
    """Estimates whole plans of a problem. trials: what plans the shallow ones."""

    problem: Problem
    trials: Trials = field(default_factory=Trials)

    def __post_init__(self) -> None:
        self._layers = repeated_layers(self.problem.model)
        self._problems: dict[tuple[object, int], Problem] = {}
        self._known: dict[tuple[Plan, int, int], Trial] = {}
        self._wholes: dict[tuple[Plan, int, int, bool], Trial] = {}

    @property
    def is_whole(self) -> bool:
        """Whether the model has too few layers that repeat to leave some out."""
        return max((each.count for each in self._layers), default=0) <= _SHALLOW

    def of(self, plan: Plan, accumulate: int, parts: int = 1) -> Trial:
        """The estimate of a plan without a cap. parts: into how many the batch is divided first, of which one is
        planned. Raises DmcError as planning does."""
        key = plan, accumulate, parts
        if key not in self._known:
            self._known[key] = self._estimated(plan, accumulate, parts)
        return self._known[key]

    def whole(self, plan: Plan, accumulate: int, cap: int = 0, is_estimate: bool = True) -> Trial:
        """The whole plan, under a cap, or without one. is_estimate: without code for its kernels. Raises DmcError as
        planning does."""
        key = plan, accumulate, cap, is_estimate
        if key not in self._wholes:
            given = self.problem, plan, accumulate, _WHOLE, cap, is_estimate
            self._wholes[key] = self.trials.planned(*given)
        return self._wholes[key]

    def placed(self, plan: Plan, accumulate: int, parts: int = 1) -> ResolvedPlan:
        """How a plan places the weights, of few layers. Raises DmcError as planning does."""
        key, problem = self._problem(self._shallow, parts)
        if self.is_whole and parts == 1:
            key, problem = _WHOLE, self.problem
        return self.trials.resolved(problem, plan, accumulate, key)

    @property
    def _shallow(self) -> dict[Repeated, int]:
        return {each: min(each.count, _DEPTH) for each in self._layers}

    def _estimated(self, plan: Plan, accumulate: int, parts: int) -> Trial:
        if self.is_whole:
            return self.whole(plan, accumulate) if parts == 1 else self._planned(plan, accumulate, parts, {})
        shallow = self._shallow
        base = found = self._planned(plan, accumulate, parts, shallow)
        for count, deeper in self._deeper(shallow):
            one_more = self._planned(plan, accumulate, parts, deeper)
            found += (one_more + base.times(-1.0)).times(count - _DEPTH)
        return found

    def _deeper(self, shallow: Mapping[Repeated, int]) -> Iterator[tuple[int, dict[Repeated, int]]]:
        """By number of layers, the depths with one layer more of each kind that has as many."""
        for count in sorted({each.count for each in self._layers if each.count > _DEPTH}):
            yield count, {each: depth + (each.count == count) for each, depth in shallow.items()}

    def _planned(self, plan: Plan, accumulate: int, parts: int, depths: Mapping[Repeated, int]) -> Trial:
        key, problem = self._problem(depths, parts)
        return self.trials.planned(problem, plan, accumulate, key, is_estimate=True)

    def _problem(self, depths: Mapping[Repeated, int], parts: int) -> tuple[object, Problem]:
        """The problem of a model of such depths, and what it is traced by."""
        key = tuple((each.path, each.first, depth) for each, depth in depths.items()), parts
        if key not in self._problems:
            self._problems[key] = self._cut(depths, parts)
        return key, self._problems[key]

    def _cut(self, depths: Mapping[Repeated, int], parts: int) -> Problem:
        problem = self.problem
        model, parameters = with_depth(problem.model, depths)
        example = with_rows(problem.example, problem.rows, parts)
        return replace(problem, model=model, optimizer=optimizer_of(problem.optimizer, parameters), example=example)
