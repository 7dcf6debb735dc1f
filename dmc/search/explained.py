"""What each line of a plan changes: the steps planned with the lines up to it, beside each other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from dmc.arguments import check_examples, checked_mesh, micro_batches
from dmc.cache import Cache, using
from dmc.errors import DmcError, PlanError
from dmc.machine import machine as machine_named
from dmc.machine import machine_for
from dmc.observer import Observer
from dmc.plans import Plan, Recipe
from dmc.program import Collective, Job, Launch, device_bytes
from dmc.program.describe import bytes_of
from dmc.program.sizes import size_text
from dmc.search.automatic import problem_of
from dmc.search.problem import Problem, single
from dmc.search.trial import Trials
from dmc.search.written import line_of
from dmc.simulator import simulate
from dmc.target import targets

_HEADS = ("line", "step", "device memory", "kernels", "read and written", "movements", "moved")


@dataclass(frozen=True)
class Figures:
    """A planned step: nanoseconds by simulation, and of the rank that has most of each the bytes of device memory, its
    kernels, the bytes that these read and write, its movements to and from other ranks, and their bytes."""

    ns: float
    memory: int
    kernels: int
    traffic: int
    movements: int
    moved: int

    @staticmethod
    def of(job: Job, problem: Problem) -> Figures:
        """Those of a job on the machine of the problem."""
        by_rank = [
            [each for each in own.program.commands if isinstance(each, Launch | Collective)] for own in job.classes
        ]
        kernels = [[each for each in own if isinstance(each, Launch)] for own in by_rank]
        movements = [[each for each in own if isinstance(each, Collective)] for own in by_rank]
        return Figures(
            ns=simulate(job, machine_named(problem.machine, problem.tuning), fold=True).step_ns,
            memory=max(device_bytes(own.program.arenas) for own in job.classes),
            kernels=max(map(len, kernels)),
            traffic=max(sum(bytes_of(job, each) for each in own) for own in kernels),
            movements=max(map(len, movements)),
            moved=max(sum(bytes_of(job, each) for each in own) for own in movements),
        )


@dataclass(frozen=True)
class Line:
    """A line of a plan as it is written, and the step with it and the lines before it; None where that is no plan, for
    a `reason`: what follows belongs to it."""

    text: str
    figures: Figures | None
    reason: str = ""


@dataclass(frozen=True)
class Explained:
    """A plan, line by line; the first is the plan without rules."""

    lines: tuple[Line, ...]

    def __str__(self) -> str:
        """A table: each figure with the line, and what the line has changed; at the end what all lines have."""
        rows = [_HEADS, *self._rows()]
        widths = [max(len(row[column]) for row in rows if len(row) > column) for column in range(len(_HEADS))]
        padded = [[text.ljust(width) for text, width in zip(row, widths, strict=False)] for row in rows]
        return "\n".join("  ".join(row).rstrip() for row in padded)

    def _rows(self) -> Iterator[tuple[str, ...]]:
        first: Figures | None = None
        last: Figures | None = None
        for line in self.lines:
            if line.figures is None:
                yield (line.text,)
                yield (f"  not alone: {line.reason}",)
                continue
            yield (line.text, *_cells(line.figures, last))
            first, last = first or line.figures, line.figures
        if first is not None and last is not None:
            yield ("all lines", *_changes(last, first))


def explain(
    *,
    plan: Any = None,
    mesh: Any = None,
    accumulate: Any = None,
    target: str = "cpu",
    machine: str | None = None,
    observer: Observer | None = None,
    **given: Any,
) -> Explained:
    """What each line of the plan among keyword arguments of `dmc.compile` changes, by simulation; no code is made for
    kernels. Raises PlanError without a plan, an optimizer or an example, and for phases; DmcError as `dmc.compile` does
    for the whole plan.
    """
    if not isinstance(plan, Recipe) or not plan.rules:
        raise PlanError("plan", "has no lines to explain", "pass a plan of your own, as to dmc.compile")
    if given.get("optimizer") is None or given.get("example") is None or given.get("phases") is not None:
        fact = "is explained for one step with an optimizer and an example"
        raise PlanError("a plan", fact, "pass both, as to dmc.compile, and no phases")
    mesh = checked_mesh(mesh, plan)
    ranks = 1 if mesh is None else mesh.size
    accumulate = check_examples(single(given["example"]), accumulate, False, None)[1][0]
    name = machine or machine_for(targets(target)[0].machine, ranks)
    problem = replace(problem_of(**given, target=target, machine=name), ranks=ranks)
    with using(Cache.of(os.environ)):
        return Explained(tuple(_lines(problem, plan, accumulate, observer or Observer())))


def _lines(problem: Problem, plan: Recipe, accumulate: Any, observer: Observer) -> Iterator[Line]:
    trials, texts = Trials(), [_start(plan), *map(line_of, plan.rules)]
    observer.plan(texts)
    for count, text in enumerate(texts):
        part = replace(plan, rules=plan.rules[:count])
        try:
            with observer.stage(text):
                parts = micro_batches(accumulate, part)
                job = trials.job(problem, part, parts, "explained", problem.memory_cap, is_estimate=True)
        except DmcError as error:
            # Of the whole plan that is the user's to know.
            if count == len(plan.rules):
                raise
            yield Line(text, None, str(error).partition("\n")[0])
        else:
            yield Line(text, Figures.of(job, problem))


def _start(plan: Recipe) -> str:
    return f"dmc.plan(dmc.{plan.mesh})" if isinstance(plan, Plan) else "dmc.plan()"


def _cells(figures: Figures, before: Figures | None) -> Sequence[str]:
    here = _shown(figures)
    return (
        here
        if before is None
        else [f"{own} {change}".rstrip() for own, change in zip(here, _changes(figures, before), strict=True)]
    )


def _changes(figures: Figures, before: Figures) -> list[str]:
    """The differences; "" where there is none."""
    pairs = zip(astuple(figures), astuple(before), strict=True)
    more = [after - earlier for after, earlier in pairs]
    shown = _shown(Figures(*map(abs, more)))
    return [f"{'+' if each > 0 else '-'}{text}" if each else "" for each, text in zip(more, shown, strict=True)]


def _shown(figures: Figures) -> list[str]:
    sizes = [size_text(each) for each in (figures.memory, figures.traffic, figures.moved)]
    memory, traffic, moved = sizes
    return [f"{figures.ns * 1e-6:.3f} ms", memory, f"{figures.kernels:,}", traffic, f"{figures.movements:,}", moved]
