"""One plan of a step, made and simulated; no kernel's code is written, and nothing is run."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from dmc import dialect, pipeline, plans
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.requests.settings import write_estimate, write_settings
from dmc.arguments import with_verbs
from dmc.compilation import arranged, state_plan
from dmc.garbage import uncollected
from dmc.importer.step import ImportedStep, import_step
from dmc.machine import machine
from dmc.passes.base import NESTED
from dmc.plans import Plan, Recipe, ResolvedPlan
from dmc.plans.verbs import Precision
from dmc.program import Job, Launch, device_bytes
from dmc.program.labels import UPDATE
from dmc.search.problem import Problem
from dmc.simulator import simulate
from dmc.simulator.simulation import Simulation
from dmc.simulator.summary import summarise
from dmc.target import targets


@dataclass(frozen=True)
class Trial:
    """A step in nanoseconds and in bytes of the fullest rank's device memory.

    Of the step of the rank that computes longest: `busy` computing, of which `update` in the optimizer; then waiting,
    for communication, for copies and for other ranks. The four parts of the step add up to it. weights, gradients,
    optimizer: bytes of each at the peak; the rest is activations, above all.
    """

    ns: float
    bytes: float
    busy: float
    update: float
    communication: float
    copies: float
    others: float
    weights: float
    gradients: float
    optimizer: float

    @property
    def state(self) -> float:
        """Bytes of weights, gradients and optimizer state at the peak."""
        return self.weights + self.gradients + self.optimizer

    @property
    def held(self) -> dict[str, int]:
        """Bytes by what they are for, which add up to those of the rank."""
        state = {"weights": self.weights, "gradients": self.gradients, "optimizer state": self.optimizer}
        found = {**state, "activations and others": self.bytes - self.state}
        return {name: round(size) for name, size in found.items()}

    def __add__(self, other: Trial) -> Trial:
        return Trial(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def times(self, factor: float) -> Trial:
        """All figures multiplied."""
        return Trial(*(getattr(self, each.name) * factor for each in fields(self)))


@dataclass
class Trials:
    """Plans steps, each traced once. count: how many have been planned."""

    count: int = 0

    def __post_init__(self) -> None:
        self._traced: dict[object, tuple[str, ImportedStep]] = {}

    def planned(
        self, problem: Problem, plan: Plan, accumulate: int, key: object = None, cap: int = 0, is_estimate: bool = False
    ) -> Trial:
        """A plan of the step. accumulate: micro-batches. key: equal for equal problems; None for one that is planned
        once. cap: bytes of device memory of a rank; 0 for none. is_estimate: kernels have no code, which takes most of
        the time, so that the plan is not quite that of `dmc.compile`. Raises DmcError as that does, MemoryCapError
        included."""
        return trial_of(self.job(problem, plan, accumulate, key, cap, is_estimate), problem)

    def job(
        self,
        problem: Problem,
        plan: Recipe,
        accumulate: int,
        key: object = None,
        cap: int = 0,
        is_estimate: bool = False,
    ) -> Job:
        """The programs of a plan, which may be for one rank; see `planned`."""
        self.count += 1
        with uncollected(), ir.Context() as context, ir.Location.unknown():
            dialect.load(context)
            step, _ = self._placed(problem, plan, accumulate, key, context)
            write_settings(step.module, problem.target, problem.machine, cap, problem.tuning)
            if is_estimate:
                write_estimate(step.module)
            pipeline.run(step.module, to_form="planned", options=NESTED, with_texts=False)
            return job_of(step.module)

    def resolved(self, problem: Problem, plan: Plan, accumulate: int, key: object) -> ResolvedPlan:
        """How a plan places the tensors of the step. key: as of `planned`. Raises DmcError as planning does."""
        with uncollected(), ir.Context() as context, ir.Location.unknown():
            dialect.load(context)
            resolved = self._placed(problem, plan, accumulate, key, context)[1]
        assert resolved is not None, "a plan has a mesh"
        return resolved

    def _placed(
        self, problem: Problem, plan: Recipe, accumulate: int, key: object, context: ir.Context
    ) -> tuple[ImportedStep, ResolvedPlan | None]:
        """The step, annotated with what the plan asks for."""
        step = self._imported(problem, plan, accumulate, key, context)
        own, factors, _ = arranged(plan, step, accumulate, machine(problem.machine, problem.tuning))
        return step, state_plan(step, own, accumulate, targets(problem.target)[0], factors)

    def _imported(
        self, problem: Problem, plan: Recipe, accumulate: int, key: object, context: ir.Context
    ) -> ImportedStep:
        parts, chosen = plans.data_parts(plan), targets(problem.target)
        mesh = plan.mesh if isinstance(plan, Plan) else None
        in_types = with_verbs(problem.model, plan, problem.precision, chosen, "static", mesh)
        full = (key, accumulate, parts, tuple(rule for rule in plan.rules if isinstance(rule, Precision)))
        if full not in self._traced:
            given = problem.optimizer, problem.example, problem.precision, accumulate, problem.seed
            with in_types:
                step = import_step(problem.model, problem.loss, *given, context, parts)
            if key is not None:
                self._traced[full] = (step.module.operation.get_asm(enable_debug_info=True), step)
            return step
        text, step = self._traced[full]
        return replace(step, module=ir.Module.parse(text, context))


def trial_of(job: Job, problem: Problem) -> Trial:
    """The figures of a planned step on the machine of the problem."""
    simulation = simulate(job, machine(problem.machine, problem.tuning), fold=True)
    summary = summarise(simulation)
    busiest = max(summary.waits, key=lambda each: each.busy)
    at_peak = summary.fullest.at_peak
    return Trial(
        ns=simulation.step_ns,
        bytes=max(device_bytes(each.program.arenas) for each in job.classes),
        busy=busiest.busy,
        update=_update_ns(simulation, busiest.rank),
        communication=busiest.communication,
        copies=busiest.copies,
        others=busiest.others,
        weights=at_peak.get("weights", 0),
        gradients=at_peak.get("gradients", 0),
        optimizer=at_peak.get("optimizer state", 0),
    )


def _update_ns(simulation: Simulation, rank: int) -> float:
    """Nanoseconds in which kernels of the optimizer run."""
    found = 0.0
    for span in simulation.by_rank[rank]:
        work = simulation.work(span)
        if isinstance(work, Launch) and work.label.endswith(UPDATE):
            found += span.end - span.start
    return found


def with_rows(example: Any, rows: int, parts: int) -> Any:
    """The first of so many parts of a batch: of each tensor that has `rows` of them along dimension 0."""

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[: rows // parts] if tensor.dim() and tensor.shape[0] == rows else tensor

    return pytree.tree_map_only(torch.Tensor, cut, example)
