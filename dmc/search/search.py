"""The plan that is found: candidates by estimates, the best few by whole plans, under the cap."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from dmc.cache import Cache, using
from dmc.errors import DmcError, MemoryCapError
from dmc.observer import Observer
from dmc.plans import Plan
from dmc.search.candidates import Candidate, Pruned, candidates_of
from dmc.search.facts import Facts, facts_of
from dmc.search.problem import Problem
from dmc.search.ranking import Ranked, Ranker, Ranking
from dmc.search.refusal import refused
from dmc.search.shallow import Estimates
from dmc.search.trial import Trial

# So many whole plans at most, of candidates that are estimated to be within this of the best.
_FINALISTS, _NEAR = 3, 1.02
# Below this part of the cap, whole plans are judged without the code of their kernels, whose scratch is not known.
_ROOMY = 0.8


@dataclass(frozen=True)
class Final:
    """A whole plan under the cap: what is known of it for sure."""

    candidate: Candidate
    plan: Plan
    trial: Trial
    estimate: Trial


@dataclass(frozen=True)
class Found:
    """The plan found, the whole plans it was chosen from, fastest first, all that was considered, and the seconds and
    the number of plans that it took."""

    plan: Plan
    finals: tuple[Final, ...]
    ranking: Ranking
    seconds: float
    planned: int

    @property
    def best(self) -> Final:
        """The plan found, with its simulation."""
        return self.finals[0]


def find(problem: Problem, observer: Observer | None = None) -> Found:
    """The fastest plan by simulation. The same problem gives the same plan. observer: told of each candidate.

    Raises MemoryCapError where none fits the cap, with what would; DmcError for what `dmc.compile` does not accept.
    """
    begin, facts = time.perf_counter(), facts_of(problem)
    estimates = Estimates(problem)
    with using(Cache.of(os.environ)):
        candidates, pruned = candidates_of(problem, facts)
        ranker = Ranker(problem, facts, estimates, observer or Observer(), Ranking(pruned=pruned))
        ranking = ranker.run(candidates)
        finals = list(_finals(problem, facts, ranking, estimates, observer or Observer()))
    if not finals:
        raise refused(problem, facts, ranking)
    finals.sort(key=lambda each: (each.trial.ns, each.candidate))
    return Found(finals[0].plan, tuple(finals), ranking, time.perf_counter() - begin, estimates.trials.count)


def _finals(
    problem: Problem, facts: Facts, ranking: Ranking, estimates: Estimates, observer: Observer
) -> Iterator[Final]:
    """Whole plans of the best candidates, until the next is estimated to be slower than the best of them."""
    count, best = 0, float("inf")
    for ranked in ranking.fits:
        near = ranked.ns <= _NEAR * ranking.best_ns
        if count and (count >= _FINALISTS or (not near and ranked.ns >= best)):
            return
        with observer.stage(f"{ranked.candidate}, whole"):
            final = _final(problem, facts, ranked, ranking, estimates)
        if final is not None:
            count, best = count + 1, min(best, final.trial.ns)
            yield final


def _final(problem: Problem, facts: Facts, ranked: Ranked, ranking: Ranking, estimates: Estimates) -> Final | None:
    """The whole plan of a candidate. What is computed again under the cap is the compiler's choice; layers are named
    only where it finds none that is about as fast as the estimate."""
    own, found = ranked.candidate, list[Final]()
    # Far below the cap memory need not be exact.
    roomy = ranked.estimate.bytes <= _ROOMY * problem.cap
    for candidate in dict.fromkeys((replace(own, again=False), own)):
        if found and found[0].trial.ns <= _NEAR * ranked.ns:
            break
        plan = candidate.plan(facts)
        accumulate = candidate.microbatches if candidate.pp > 1 else problem.accumulate or 1
        cap = problem.memory_cap
        try:
            trial = estimates.trials.planned(problem, plan, accumulate, cap=cap, is_estimate=roomy)
        except MemoryCapError as error:
            ranking.refused.append((candidate, error.needed))
            continue
        except DmcError as error:
            ranking.pruned.append(Pruned(f"{candidate}, whole", f"{error.place}: {error.fact}"))
            return None
        if trial.bytes <= problem.cap:
            found.append(Final(candidate, plan, trial, ranked.estimate))
        else:
            ranking.refused.append((candidate, ceil(trial.bytes)))
    return min(found, key=lambda each: (each.trial.ns, each.candidate), default=None)
