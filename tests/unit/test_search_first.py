"""The first estimate of a search: a whole plan where it is likely to be the plan found, and what it bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dmc.machine import machine
from dmc.observer import Observer
from dmc.plans import Plan
from dmc.search import Problem
from dmc.search.bounds import Bounds
from dmc.search.candidates import Candidate, candidates_of
from dmc.search.facts import facts_of
from dmc.search.ranking import Ranker, Ranking
from dmc.search.shallow import Estimates
from dmc.search.trial import Trial
from tests.searched import problem

# A step in nanoseconds, with the update of what a rank of two holds under ZeRO-2.
_STEP = Trial(
    1e6, 1e9, busy=1e6, update=0.16e6, communication=0, copies=0, others=0, weights=0, gradients=0, optimizer=0
)
# AdamW's weights and state of 42 million, each read and written, and gradients of half the bytes.
_TRAFFIC = (2 * (4 + 8) + 2) * 42.0e6


class _Fixed(Estimates):
    """Says that the first plan takes `_STEP`, and all others longer; `asked` are these, and whether they were whole."""

    def __init__(self, given: Problem) -> None:
        super().__init__(given)
        self.asked: list[tuple[Plan, bool]] = []

    def whole(self, plan: Plan, accumulate: int, cap: int = 0, is_estimate: bool = True) -> Trial:
        """As of `Estimates`."""
        return self._told(plan, True)

    def of(self, plan: Plan, accumulate: int, parts: int = 1) -> Trial:
        """As of `Estimates`."""
        return self._told(plan, False)

    def _told(self, plan: Plan, is_whole: bool) -> Trial:
        self.asked.append((plan, is_whole))
        return _STEP if len(self.asked) == 1 else replace(_STEP, ns=2e6)


def _ranked(given: Problem) -> tuple[list[tuple[Plan, bool]], Ranking]:
    facts, estimates = facts_of(given), _Fixed(given)
    ranking = Ranker(given, facts, estimates, Observer()).run(candidates_of(given, facts)[0])
    return estimates.asked, ranking


def test_the_likely_best_is_planned_whole_and_leaves_other_stages_out() -> None:
    given = problem(1024, 4, 64)
    asked, ranking = _ranked(given)
    assert asked[0] == (Candidate(dp=2, zero=2).plan(facts_of(given)), True)
    assert not any(is_whole for _, is_whole in asked[1:])
    left_out = dict(ranking.bounded)
    assert {each.zero for each in left_out if each.dp == 2} == {0, 1, 3}
    assert all(bound >= _STEP.ns for bound in left_out.values())


def test_under_a_cap_the_first_is_estimated_as_all_others() -> None:
    asked, _ = _ranked(problem(1024, 4, 64, memory_cap=2 * 10**9))
    assert not any(is_whole for _, is_whole in asked)
    # State that takes most of a device: it is not sure to fit.
    given = problem(1024, 4, 64)
    facts = replace(facts_of(given), optimizer=given.cap)
    estimates = _Fixed(given)
    Ranker(given, facts, estimates, Observer()).run([Candidate(dp=2, zero=2)])
    assert estimates.asked == [(Candidate(dp=2, zero=2).plan(facts), False)]


def test_an_update_of_more_takes_what_memory_does() -> None:
    given = problem(1024, 4, 64)
    bounds = Bounds(given, facts_of(given), Candidate(dp=2, zero=2), _STEP)
    computing = 0.98 * (_STEP.busy - _STEP.update)
    update = bounds.ns(Candidate(dp=2)) - computing
    assert update == pytest.approx(
        _TRAFFIC / machine(given.machine).device.memories["device"].bandwidth * 1e9, rel=0.01
    )
    assert bounds.ns(Candidate(dp=2, zero=3)) == pytest.approx(computing + _STEP.update)
    # What is small takes no less than it did.
    small = Bounds(problem(8, 4, 64), facts_of(problem(8, 4, 64)), Candidate(dp=2, zero=2), _STEP)
    assert small.ns(Candidate(dp=2)) == pytest.approx(computing + _STEP.update)
    # Of less it takes a share.
    whole = Bounds(given, facts_of(given), Candidate(dp=2), _STEP)
    assert whole.ns(Candidate(dp=2, zero=2)) == pytest.approx(computing + _STEP.update / 2)
