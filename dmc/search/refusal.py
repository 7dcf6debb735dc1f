"""What does not fit where no plan does, and what would: a larger cap, more ranks, or a smaller batch."""

from __future__ import annotations

from math import ceil

from dmc.errors import MemoryCapError, PlanError
from dmc.program.sizes import size_text
from dmc.search.answer import listed
from dmc.search.bounds import held_bytes
from dmc.search.candidates import Candidate
from dmc.search.facts import Facts
from dmc.search.problem import Problem
from dmc.search.ranking import Ranked, Ranking


def refused(problem: Problem, facts: Facts, ranking: Ranking) -> PlanError | MemoryCapError:
    """The error that says why no plan was found."""
    place = f"a plan for {problem.machine}"
    if not (ranking.over or ranking.refused) and not any(each.reason.startswith("state") for each in ranking.pruned):
        reasons = "; ".join(f"{each.what} ({each.reason})" for each in ranking.pruned)
        return PlanError(place, f"none can be: {reasons}", "change the batch, or take another machine")
    if not (ranking.over or ranking.refused):
        return _state(place, problem, facts)
    if ranking.refused:
        needed, candidate = min((size, candidate) for candidate, size in ranking.refused)
        fact = f"no plan fits into {size_text(problem.cap)} a rank; the one that needs least is {candidate}"
        return MemoryCapError(place, fact, f"a cap of {size_text(needed)}, or a smaller batch", needed)
    least = min(ranking.over, key=lambda each: (each.estimate.bytes, each.candidate))
    return _activations(place, problem, least)


def _state(place: str, problem: Problem, facts: Facts) -> MemoryCapError:
    """Not even the state fits, however it is divided."""
    held = held_bytes(Candidate(dp=problem.ranks, zero=3, host=True), facts)
    needed = sum(held.values())
    ranks = problem.ranks * 2
    while sum(held_bytes(Candidate(dp=ranks, zero=3, host=True), facts).values()) > problem.cap:
        ranks *= 2
    fact = (
        f"the state does not fit into {size_text(problem.cap)} a rank, even with the optimizer's in host memory: "
        f"{listed(held)}, divided over all ranks"
    )
    hint = f"a cap of more than {size_text(needed)}, or {ranks} ranks; a smaller batch does not help"
    return MemoryCapError(place, fact, hint, needed)


def _activations(place: str, problem: Problem, least: Ranked) -> MemoryCapError:
    """The plan that needs least, by estimate, needs too much."""
    trial = least.estimate
    needed, activations = ceil(trial.bytes), trial.bytes - trial.state
    held = {"weights, gradients and optimizer state": round(trial.state), "activations": round(activations)}
    fact = (
        f"no plan fits into {size_text(problem.cap)} a rank; the one that needs least, {least.candidate}, is estimated "
        f"to need {size_text(needed)}: {listed(held)}"
    )
    ways = [f"a cap of {size_text(needed)}"]
    room = problem.cap - trial.state
    if room > 0 and (rows := int(problem.rows * room / activations)) >= 1:
        ways.append(f"a batch of {rows} instead of {problem.rows}")
    ways.append(f"{problem.ranks * ceil(trial.bytes / problem.cap)} ranks")
    return MemoryCapError(place, fact, ", or ".join(ways), needed)
