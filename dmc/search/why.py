"""Why a plan is what was found: beside it, the best plan that does otherwise.

Both are whole plans, so that the parts of the difference add up to the difference of their steps.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil

from dmc.cache import Cache, using
from dmc.errors import MemoryCapError
from dmc.program.sizes import size_text
from dmc.search.answer import Answer, listed
from dmc.search.bounds import held_bytes
from dmc.search.candidates import Candidate, Pruned, can_repeat, divided, relieved, variants_of
from dmc.search.finals import Final, Search
from dmc.search.otherwise import otherwise, placements, weights_of
from dmc.search.problem import Problem
from dmc.search.question import question_of
from dmc.search.ranking import IsAsked, Ranking, any_candidate
from dmc.search.search import Found
from dmc.search.trial import Trial

# So often the range is halved in which the smallest cap is that would do.
_HALVINGS = 3


def why_not(found: Found, what: str) -> Answer:
    """The plan found beside the fastest that is `what`, as "tp=2" or "zero=3 sequence". Raises PlanError where `what`
    is nothing that a search chooses."""
    question, search, own = question_of(what), found.search, found.best.candidate
    asked = f"why not {what}"
    if question.holds(own):
        return Answer(asked, found.best, reason=f"the plan found is that: {own}")
    variants = [question.on(each) for each in variants_of(search.problem, search.facts)]
    possible = [each for each in variants if question.holds(each)]
    if not possible:
        return Answer(asked, found.best, reason=f"does not apply: {question.missing(variants)}")
    repeats = [each for each in possible if not each.again or can_repeat(each, search.facts)]
    candidates, pruned = divided(repeats, search.problem, search.facts)
    if not repeats:
        pruned = [Pruned("recompute", "is for layers that repeat, outside of pipelines")]
    return _compared(asked, found, candidates, pruned, question.holds)


def why(found: Found, path: str) -> Answer:
    """The plan found beside the fastest that differs from it in the places of the weights of a path alone, as
    "h.*.mlp.up". Raises PlanError where no weight is of the path, or not the same ones in equal layers."""
    search, own = found.search, found.best.candidate
    weights = weights_of(search.problem.model, path)
    with using(Cache.of(os.environ)):
        candidates, pruned = otherwise(search, own, weights)
        answer = _compared(f"why {path}", found, candidates, pruned, any_candidate)
        placed = [placements(search, own, weights)]
        if answer.other is not None:
            placed.append(placements(search, answer.other.candidate, weights))
    return replace(answer, placed=tuple(placed))


def check_questions(problem: Problem, paths: Iterable[str], plans: Iterable[str]) -> None:
    """Raises PlanError for what `why` does not accept of the paths, or `why_not` of the plans."""
    for path in paths:
        weights_of(problem.model, path)
    for what in plans:
        question_of(what)


def _compared(
    asked: str, found: Found, candidates: Sequence[Candidate], pruned: Sequence[Pruned], is_asked: IsAsked
) -> Answer:
    """The answer, by a search among some candidates."""
    search = found.search
    if not candidates:
        return Answer(asked, found.best, reason=f"does not apply: {_reasons(pruned) or 'there is no other place'}")
    with using(Cache.of(os.environ)):
        finals, ranking = search.among(candidates, pruned, is_asked)
        other = finals[0] if finals else _least(search, candidates, ranking, is_asked)
        if isinstance(other, MemoryCapError):
            return Answer(asked, found.best, reason=f"{other.fact}; {other.hint}", needed=other.needed)
        if other is None:
            return Answer(asked, found.best, reason=f"does not apply: {_reasons(ranking.pruned)}")
        # Of two plans, both know the scratch of their kernels or neither.
        if found.best.is_exact == other.is_exact:
            return Answer(asked, found.best, other)
        return Answer(asked, search.exact(found.best), search.exact(other))


def _reasons(pruned: Sequence[Pruned]) -> str:
    return "; ".join(f"{each.what}: {each.reason}" for each in pruned)


def _least(
    search: Search, candidates: Sequence[Candidate], ranking: Ranking, is_asked: IsAsked
) -> Final | MemoryCapError | None:
    """The one that needs least where none is estimated to fit: its plan if it does fit, or what does not; None where
    memory is not what is against it."""
    estimated = {each.candidate: each.estimate for each in (*ranking.over, *ranking.fits)}
    if estimated:
        least = min(estimated, key=lambda each: (estimated[each].bytes, each))
        held = estimated[least].held
    elif any(each.reason.startswith("state") for each in ranking.pruned):
        least = _relieved(min(candidates, key=lambda each: (_state(each, search), each)), search, is_asked)
        held = held_bytes(least, search.facts)
    else:
        return None
    needed: dict[int, Candidate] = {}
    for each in filter(is_asked, dict.fromkeys((replace(least, again=False), least))):
        fits = _fits(search, each, search.problem.cap)
        if isinstance(fits, Trial):
            return Final(each, each.plan(search.facts), fits, fits, True)
        needed.setdefault(fits, each)
    candidate = needed[min(needed)]
    enough, short = _smallest(search, candidate, min(needed))
    fact = f"does not fit into {size_text(search.problem.cap)} a rank: {candidate} holds {listed(held)}"
    would = f"a cap of {size_text(enough, exact=True)} would do, one of {size_text(short, exact=True)} would not"
    return MemoryCapError("", fact, would, enough)


def _fits(search: Search, candidate: Candidate, cap: int) -> Trial | int:
    """The whole plan of a candidate under a cap, or the bytes that it needs."""
    try:
        trial = search.planned(candidate, is_estimate=False, cap=cap)
    except MemoryCapError as error:
        return error.needed
    return trial if trial.bytes <= cap else ceil(trial.bytes)


def _smallest(search: Search, candidate: Candidate, needed: int) -> tuple[int, int]:
    """A cap under which a candidate is planned, and a smaller one under which it is not, near each other. needed: what
    is asked for under the cap of the problem, which may be more than must be."""
    enough, short = needed, search.problem.cap
    for _ in range(_HALVINGS):
        middle = (enough + short) // 2
        if isinstance(_fits(search, candidate, middle), Trial):
            enough = middle
        else:
            short = middle
    return enough, short


def _relieved(candidate: Candidate, search: Search, is_asked: IsAsked) -> Candidate:
    """The candidate with as little in device memory as it can have."""
    found: Candidate | None = candidate
    while found is not None:
        candidate = found if is_asked(found) else candidate
        found = relieved(found, search.facts)
    return candidate


def _state(candidate: Candidate, search: Search) -> int:
    """Bytes of the state at least."""
    return sum(held_bytes(replace(candidate, host=True), search.facts).values())
