"""Whole plans of the best candidates: what a search decides by, under the cap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from dmc.errors import DmcError, MemoryCapError
from dmc.observer import Observer
from dmc.plans import Plan
from dmc.search.candidates import Candidate, Pruned
from dmc.search.facts import Facts
from dmc.search.problem import Problem
from dmc.search.ranking import IsAsked, Ranked, Ranker, Ranking, any_candidate
from dmc.search.shallow import Estimates
from dmc.search.trial import Trial

# So many whole plans at most, of candidates that are estimated to be within this of the best.
_FINALISTS, _NEAR = 3, 1.02
# Below this part of the cap, whole plans are judged without the code of their kernels, whose scratch is not known.
_ROOMY = 0.8


@dataclass(frozen=True)
class Final:
    """A whole plan under the cap: what is known of it for sure. is_exact: whether its kernels have code, whose scratch
    is in the memory."""

    candidate: Candidate
    plan: Plan
    trial: Trial
    estimate: Trial
    is_exact: bool


@dataclass
class Search:
    """What searches of one problem share: what is known of the model, and plans of it with few layers."""

    problem: Problem
    facts: Facts
    observer: Observer
    estimates: Estimates = field(init=False)

    def __post_init__(self) -> None:
        self.estimates = Estimates(self.problem)

    def among(
        self, candidates: Sequence[Candidate], pruned: Sequence[Pruned], is_asked: IsAsked = any_candidate
    ) -> tuple[list[Final], Ranking]:
        """Whole plans of the best candidates that fit the cap, fastest first, and all that was considered; none where
        none fits. pruned: those that cannot be. is_asked: whether what takes a candidate's place may be."""
        ranking = Ranking(pruned=list(pruned))
        Ranker(self.problem, self.facts, self.estimates, self.observer, ranking, is_asked).run(candidates)
        finals = list(self._finals(ranking, is_asked))
        return sorted(finals, key=lambda each: (each.trial.ns, each.candidate)), ranking

    def exact(self, final: Final) -> Final:
        """The same plan with code for its kernels. Raises MemoryCapError where they need more than the cap."""
        if final.is_exact:
            return final
        return replace(final, trial=self.planned(final.candidate, is_estimate=False), is_exact=True)

    def planned(self, candidate: Candidate, is_estimate: bool, cap: int | None = None) -> Trial:
        """The whole plan of a candidate, under the cap of the problem or another. Raises DmcError as planning does."""
        accumulate = candidate.microbatches if candidate.pp > 1 else self.problem.accumulate or 1
        cap, plan = self.problem.memory_cap if cap is None else cap, candidate.plan(self.facts)
        return self.estimates.whole(plan, accumulate, cap, is_estimate)

    def _finals(self, ranking: Ranking, is_asked: IsAsked) -> Iterator[Final]:
        """Whole plans of the best candidates, until the next is estimated to be slower than the best of them."""
        count, best = 0, float("inf")
        for ranked in ranking.fits:
            near = ranked.ns <= _NEAR * ranking.best_ns
            if count and (count >= _FINALISTS or (not near and ranked.ns >= best)):
                return
            with self.observer.stage(f"{ranked.candidate}, whole"):
                final = self._final(ranked, ranking, is_asked)
            if final is not None:
                count, best = count + 1, min(best, final.trial.ns)
                yield final

    def _final(self, ranked: Ranked, ranking: Ranking, is_asked: IsAsked) -> Final | None:
        """The whole plan of a candidate. What is computed again under the cap is the compiler's choice; layers are
        named only where it finds none that is about as fast as the estimate."""
        own, found = ranked.candidate, list[Final]()
        # Far below the cap memory need not be exact.
        roomy = ranked.estimate.bytes <= _ROOMY * self.problem.cap
        for candidate in filter(is_asked, dict.fromkeys((replace(own, again=False), own))):
            if found and found[0].trial.ns <= _NEAR * ranked.ns:
                break
            try:
                trial = self.planned(candidate, is_estimate=roomy)
            except MemoryCapError as error:
                ranking.refused.append((candidate, error.needed))
                continue
            except DmcError as error:
                ranking.pruned.append(Pruned(f"{candidate}, whole", f"{error.place}: {error.fact}"))
                return None
            if trial.bytes <= self.problem.cap:
                found.append(Final(candidate, candidate.plan(self.facts), trial, ranked.estimate, not roomy))
            else:
                ranking.refused.append((candidate, ceil(trial.bytes)))
        return min(found, key=lambda each: (each.trial.ns, each.candidate), default=None)
