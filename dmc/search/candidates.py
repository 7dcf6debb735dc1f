"""The plans that a search considers, and why some cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import dmc
from dmc.mesh import Mesh
from dmc.plans import Plan
from dmc.search.facts import Facts
from dmc.search.problem import Problem

# As many micro-batches as these times the stages of a pipeline.
_MICROBATCHES = (2, 4)
# By name, with the stages of a rank.
SCHEDULES = {"1f1b": 1, "zb-h1": 1, "interleaved": 2}


@dataclass(frozen=True, order=True)
class Placed:
    """Weights that are not placed as the rest of a plan says: whole, or split along `dim` over `axis`.

    pattern: of their names, as in the plan language. axis: "" for whole weights.
    """

    pattern: str
    dim: int = 0
    axis: str = ""

    def __str__(self) -> str:
        return f"{self.pattern.removeprefix('.')} " + (f"dim={self.dim} over {self.axis}" if self.axis else "whole")

    def added(self, plan: Plan) -> Plan:
        """The plan with rules that place the weights so, whatever its own say of them."""
        plan = plan.replicate(self.pattern)
        return plan.shard(self.pattern, dim=self.dim, axis=self.axis) if self.axis else plan


@dataclass(frozen=True, order=True)
class Candidate:
    """Ranks by what they divide: pp the layers, dp the batch, tp heads and hidden units. zero: the stage of ZeRO over
    dp. sequence: whether norms are split over tp by tokens. experts: whether experts are split over dp.

    microbatches, schedule, chunks: of a pipeline, else 1, "" and 1. again: whether layers compute again what the
    backward pass reads. host: whether the optimizer's state waits in host memory. placed: single weights.
    """

    pp: int = 1
    dp: int = 1
    tp: int = 1
    zero: int = 0
    sequence: bool = False
    experts: bool = False
    microbatches: int = 1
    schedule: str = ""
    chunks: int = 1
    again: bool = False
    host: bool = False
    placed: tuple[Placed, ...] = ()

    def __str__(self) -> str:
        parts = [f"{name}={size}" for name, size in (("pp", self.pp), ("dp", self.dp), ("tp", self.tp)) if size > 1]
        parts += [f"zero={self.zero}"] * (self.zero > 0) + ["sequence"] * self.sequence + ["experts"] * self.experts
        if self.pp > 1:
            chunks = f" × {self.chunks}" if self.chunks > 1 else ""
            parts.append(f"{self.microbatches} micro-batches, {self.schedule}{chunks}")
        parts += ["recompute"] * self.again + ["optimizer on host"] * self.host
        parts += map(str, self.placed)
        return " ".join(parts) or "one rank"

    @property
    def inner(self) -> Candidate:
        """The candidate on the ranks of one stage of its pipeline."""
        return replace(self, pp=1, microbatches=1, schedule="", chunks=1)

    @property
    def over(self) -> dict[str, int]:
        """Over how many ranks each part of the state is divided, at most."""
        layers = self.pp * self.tp

        def divided(stage: int) -> int:
            return layers * (self.dp if self.zero >= stage else 1)

        return {"weights": divided(2), "optimizer state": divided(1), "gradients": divided(2)}

    def plan(self, facts: Facts) -> Plan:
        """The plan, in the plan language."""
        sizes = {name: size for name, size in (("pp", self.pp), ("dp", self.dp), ("tp", self.tp)) if size > 1}
        plan = dmc.plan(Mesh(links=None, **(sizes or {"dp": 1})))
        if self.dp > 1 or not sizes:
            plan = plan.data_parallel("dp", zero=self.zero)
        if self.experts:
            plan = plan.expert_parallel("dp", *facts.expert_weights)
        if self.tp > 1:
            plan = plan.use(dmc.plans.megatron("tp"))
        if self.sequence:
            plan = plan.sequence_parallel("tp", between=facts.norms)
        if self.pp > 1:
            named = {"microbatches": self.microbatches, "chunks": self.chunks}
            plan = plan.pipeline("pp", cut="balanced", schedule=self.schedule, **named)
        if self.again:
            plan = plan.recompute(facts.patterns)
        if self.host:
            plan = plan.offload_optimizer()
        for each in self.placed:
            plan = each.added(plan)
        return plan


@dataclass(frozen=True)
class Pruned:
    """A candidate, or several, that cannot be; reason: why, beginning with what does not fit."""

    what: str
    reason: str


def candidates_of(problem: Problem, facts: Facts) -> tuple[list[Candidate], list[Pruned]]:
    """What could be, in order, and what could not."""
    return divided(variants_of(problem, facts), problem, facts)


def variants_of(problem: Problem, facts: Facts) -> list[Candidate]:
    """All that the search knows of, in order, whether it could be or not."""
    meshes = (Candidate(*sizes) for sizes in _factorings(problem.ranks))
    return [each for mesh in meshes for each in _variants(mesh, problem, facts)]


def divided(variants: Iterable[Candidate], problem: Problem, facts: Facts) -> tuple[list[Candidate], list[Pruned]]:
    """The candidates that could be, and why the others cannot."""
    kept: list[Candidate] = []
    pruned: dict[Pruned, None] = {}
    for each in variants:
        where, reason = _reason(each, problem, facts)
        if reason:
            pruned[Pruned(where, reason)] = None
        else:
            kept.append(each)
    return kept, list(pruned)


def can_repeat(candidate: Candidate, facts: Facts) -> bool:
    """Whether its layers can be computed again in the backward pass."""
    return bool(facts.layers) and candidate.pp == 1


def relieved(candidate: Candidate, facts: Facts) -> Candidate | None:
    """The candidate with less in device memory, in the next of some ways, the fastest first; None after the last."""
    ways = [(False, False), (True, False), (False, True), (True, True)]
    ways = [way for way in ways if can_repeat(candidate, facts) or not way[0]]
    following = ways[ways.index((candidate.again, candidate.host)) + 1 :]
    return replace(candidate, again=following[0][0], host=following[0][1]) if following else None


def _factorings(ranks: int) -> Iterator[tuple[int, int, int]]:
    """pp, dp and tp whose product is the number of ranks."""
    for pp in _divisors(ranks):
        for tp in _divisors(ranks // pp):
            yield pp, ranks // pp // tp, tp


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _variants(mesh: Candidate, problem: Problem, facts: Facts) -> Iterator[Candidate]:
    stages = (0, 1, 2, 3) if mesh.dp > 1 else (0,)
    norms = (False, True) if mesh.tp > 1 and facts.norms else (False,)
    for zero, sequence in product(stages, norms):
        own = replace(mesh, zero=zero, sequence=sequence)
        yield from _pipelines(own, problem) if mesh.pp > 1 else (own,)
        if mesh.pp == 1 and mesh.dp > 1 and facts.experts:
            yield replace(own, experts=True)


def _pipelines(own: Candidate, problem: Problem) -> Iterator[Candidate]:
    counts = [problem.accumulate] if problem.accumulate else [each * own.pp for each in _MICROBATCHES]
    for (schedule, chunks), count in product(SCHEDULES.items(), counts):
        yield replace(own, schedule=schedule, chunks=chunks, microbatches=count)


def _reason(each: Candidate, problem: Problem, facts: Facts) -> tuple[str, str]:
    """What cannot be, and why; a reason of "" where all fits."""
    parts = each.dp * (problem.accumulate or each.microbatches)
    if problem.rows % parts:
        micro = f" × {parts // each.dp} micro-batches" if parts > each.dp else ""
        return f"dp={each.dp}{micro}", f"batch: {problem.rows} rows are not divisible by {parts}"
    if facts.heads and facts.heads % each.tp:
        return f"tp={each.tp}", f"heads: {facts.heads} are not divisible by {each.tp}"
    if each.pp > 1 and each.pp * each.chunks > facts.blocks:
        stages = each.pp * each.chunks
        return f"pp={each.pp} × {each.chunks}", f"stages: {stages}, but the model has {facts.blocks} blocks"
    if each.experts and facts.experts % each.dp:
        return f"experts over dp={each.dp}", f"experts: {facts.experts} are not divisible by {each.dp}"
    return str(each), ""
