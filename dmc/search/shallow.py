"""A whole plan's time and memory, from plans of models with few layers.

Time and memory are taken to be linear in the number of layers of each kind, beyond the second: the first hides what the
step begins and ends with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dmc.plans import Plan
from dmc.search.layers import Repeated, optimizer_of, repeated_layers, with_depth
from dmc.search.problem import Problem
from dmc.search.trial import Trial, Trials, with_rows

# So many layers of each kind are planned, and one more.
_DEPTH = 2
# Models with no more layers than this are planned whole.
_SHALLOW = 4


@dataclass
class Estimates:
    """Estimates whole plans of a problem. trials: what plans the shallow ones."""

    problem: Problem
    trials: Trials = field(default_factory=Trials)

    def __post_init__(self) -> None:
        self._layers = repeated_layers(self.problem.model)
        self._problems: dict[tuple[object, int], Problem] = {}
        self._known: dict[tuple[Plan, int, int], Trial] = {}

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

    def _estimated(self, plan: Plan, accumulate: int, parts: int) -> Trial:
        if self.is_whole:
            return self._planned(plan, accumulate, parts, {})
        shallow = {each: min(each.count, _DEPTH) for each in self._layers}
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
        key = tuple((each.path, each.first, depth) for each, depth in depths.items()), parts
        if key not in self._problems:
            self._problems[key] = self._cut(depths, parts)
        return self.trials.planned(self._problems[key], plan, accumulate, key, is_estimate=True)

    def _cut(self, depths: Mapping[Repeated, int], parts: int) -> Problem:
        problem = self.problem
        model, parameters = with_depth(problem.model, depths)
        example = with_rows(problem.example, problem.rows, parts)
        return replace(problem, model=model, optimizer=optimizer_of(problem.optimizer, parameters), example=example)
