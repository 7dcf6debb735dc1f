"""The plan that is found: candidates by estimates, the best few by whole plans, under the cap."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from dmc.cache import Cache, using
from dmc.observer import Observer
from dmc.plans import Plan
from dmc.search.candidates import candidates_of
from dmc.search.facts import facts_of
from dmc.search.finals import Final, Search
from dmc.search.problem import Problem
from dmc.search.ranking import Ranking
from dmc.search.refusal import refused


@dataclass(frozen=True)
class Found:
    """The plan found, the whole plans it was chosen from, fastest first, all that was considered, and the seconds and
    the number of plans that it took. search: by which questions about it are answered."""

    plan: Plan
    finals: tuple[Final, ...]
    ranking: Ranking
    seconds: float
    planned: int
    search: Search

    @property
    def best(self) -> Final:
        """The plan found, with its simulation."""
        return self.finals[0]


def find(problem: Problem, observer: Observer | None = None) -> Found:
    """The fastest plan by simulation. The same problem gives the same plan. observer: told of each candidate.

    Raises MemoryCapError where none fits the cap, with what would; DmcError for what `dmc.compile` does not accept.
    """
    begin, facts = time.perf_counter(), facts_of(problem)
    search = Search(problem, facts, observer or Observer())
    with using(Cache.of(os.environ)):
        finals, ranking = search.among(*candidates_of(problem, facts))
    if not finals:
        raise refused(problem, facts, ranking)
    seconds, planned = time.perf_counter() - begin, search.estimates.trials.count
    return Found(finals[0].plan, tuple(finals), ranking, seconds, planned, search)
