"""The candidates of a search, best first, by estimates of as few as possible: branch and bound."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dmc.errors import DmcError
from dmc.observer import Observer
from dmc.program.sizes import size_text
from dmc.search.bounds import Bounds, held_bytes, pipelined
from dmc.search.candidates import Candidate, Pruned, relieved
from dmc.search.facts import Facts
from dmc.search.problem import Problem
from dmc.search.shallow import Estimates
from dmc.search.trial import Trial

# The stage of ZeRO that is most often the fastest.
_LIKELY = 2
# Of a device's memory, the part that state may take of a plan that is likely to fit.
_ROOMY = 0.4


@dataclass(frozen=True)
class Ranked:
    """A candidate with the estimate of its plan without a cap. ns: of its plan under the cap: what is computed again
    is only as much as the cap asks for."""

    candidate: Candidate
    estimate: Trial
    ns: float


@dataclass
class Ranking:
    """fits: estimated candidates within the cap, fastest first. over: estimated ones that need more.

    bounded: those not estimated, since they cannot be faster than the best, with their bounds in nanoseconds. pruned:
    those that cannot be. refused: those whose whole plan needs more than the cap, with the bytes.
    """

    fits: list[Ranked] = field(default_factory=list[Ranked])
    over: list[Ranked] = field(default_factory=list[Ranked])
    bounded: list[tuple[Candidate, float]] = field(default_factory=list[tuple[Candidate, float]])
    pruned: list[Pruned] = field(default_factory=list[Pruned])
    refused: list[tuple[Candidate, int]] = field(default_factory=list[tuple[Candidate, int]])

    @property
    def best_ns(self) -> float:
        """The fastest estimate that fits."""
        return min((each.ns for each in self.fits), default=float("inf"))


IsAsked = Callable[[Candidate], bool]


def any_candidate(candidate: Candidate) -> bool:
    """True."""
    return True


@dataclass
class Ranker:
    """Ranks candidates of a problem. is_asked: whether what is tried in the place of one that does not fit may be."""

    problem: Problem
    facts: Facts
    estimates: Estimates
    observer: Observer
    ranking: Ranking = field(default_factory=Ranking)
    is_asked: IsAsked = any_candidate

    def run(self, candidates: Sequence[Candidate]) -> Ranking:
        """Estimates candidates, the lowest bound first, until no other can be faster than the best that fits."""
        possible = [each for each in candidates if self._could_fit(each)]
        # The first is one whose estimate bounds others, and often the fastest: whole layers on each rank.
        first = next(filter(None, map(self._first, sorted(possible, key=_likeness))), None)
        if first is None:
            return self.ranking
        bounds = Bounds(self.problem, self.facts, first.candidate, first.estimate)
        queue = [(bounds.ns(each), *_order(each)) for each in possible if each not in self._seen]
        queue += [(first.ns, *_order(each)) for each in self._judged(first)]
        heapq.heapify(queue)
        while queue:
            bound, _, candidate = heapq.heappop(queue)
            bound = max(bound, self._faster_ns(candidate))
            if bound >= self.ranking.best_ns:
                self.ranking.bounded.append((candidate, bound))
            elif (found := self._estimated(candidate)) is not None:
                for each in self._judged(found):
                    heapq.heappush(queue, (found.ns, *_order(each)))
        self.ranking.fits.sort(key=lambda each: (each.ns, each.candidate))
        return self.ranking

    def __post_init__(self) -> None:
        self._seen: dict[Candidate, Ranked] = {}

    def _faster_ns(self, candidate: Candidate) -> float:
        """The estimate of ZeRO-2 where the candidate is another stage, of more or of later movements; 0 without one."""
        second = self._seen.get(replace(candidate, zero=2)) if candidate.zero in (1, 3) else None
        return 0.0 if second is None else second.estimate.ns

    def _could_fit(self, candidate: Candidate) -> bool:
        """Whether the state alone does not exceed the cap, even if the optimizer's waits on the host."""
        held = held_bytes(replace(candidate, host=True), self.facts)
        if sum(held.values()) <= self.problem.cap:
            return True
        parts = ", ".join(f"{name} {size_text(size)}" for name, size in held.items() if size)
        self.ranking.pruned.append(Pruned(str(candidate), f"state: {parts} of {size_text(self.problem.cap)}"))
        return False

    def _first(self, candidate: Candidate) -> Ranked | None:
        """The candidate with its whole plan, where that is likely to be a finalist's: without a cap, and of state that
        leaves much room; else as `_estimated`."""
        is_roomy = sum(held_bytes(candidate, self.facts).values()) <= _ROOMY * self.problem.cap
        return self._estimated(candidate, is_whole=is_roomy and not self.problem.memory_cap and candidate.pp == 1)

    def _estimated(self, candidate: Candidate, is_whole: bool = False) -> Ranked | None:
        """The candidate with its estimate; None, with the reason on record, where it cannot be planned."""
        micro = self.problem.accumulate or 1
        try:
            with self.observer.stage(str(candidate)):
                if is_whole:
                    estimate = self.estimates.whole(candidate.plan(self.facts), micro)
                elif candidate.pp > 1:
                    one = self.estimates.of(candidate.inner.plan(self.facts), 1, candidate.microbatches)
                    estimate = pipelined(candidate, self.facts, one)
                else:
                    estimate = self.estimates.of(candidate.plan(self.facts), micro)
        except DmcError as error:
            self.ranking.pruned.append(Pruned(str(candidate), f"{error.place}: {error.fact}"))
            return None
        self._seen[candidate] = Ranked(candidate, estimate, estimate.ns)
        return self._seen[candidate]

    def _judged(self, found: Ranked) -> Iterator[Candidate]:
        """Records an estimate; where it does not fit, what is tried in its place."""
        if found.estimate.bytes <= self.problem.cap:
            self.ranking.fits.append(self._in_part(found))
            return
        self.ranking.over.append(found)
        following = relieved(found.candidate, self.facts)
        while following is not None and not self.is_asked(following):
            following = relieved(following, self.facts)
        if following is not None:
            yield following

    def _in_part(self, found: Ranked) -> Ranked:
        """Under a cap that lies between a plan that computes all again and the one that keeps all, as much is computed
        again as must be: its time lies between theirs."""
        kept = self._seen.get(replace(found.candidate, again=False))
        if not found.candidate.again or kept is None:
            return found
        needed, saved = kept.estimate.bytes - self.problem.cap, kept.estimate.bytes - found.estimate.bytes
        share = needed / saved if saved > 0 else 1.0
        return replace(found, ns=kept.ns + min(max(share, 0.0), 1.0) * max(found.ns - kept.ns, 0.0))


def _likeness(candidate: Candidate) -> tuple[int, int, bool, Candidate]:
    """In the order in which candidates are taken for the first: ZeRO-2 before other stages."""
    return candidate.pp, -candidate.dp, candidate.zero != _LIKELY, candidate


def _order(candidate: Candidate) -> tuple[bool, Candidate]:
    """Among candidates of one bound: ZeRO-2 before the stages that it bounds."""
    return candidate.zero in (1, 3), candidate
