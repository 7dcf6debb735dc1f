"""`plan="auto"`: the search for what `dmc.compile` is given."""

from __future__ import annotations

from typing import Any

from dmc.arguments import check_meaning, check_model, precision_named, tuning_table
from dmc.errors import PlanError
from dmc.observer import Observer
from dmc.plans import Plan
from dmc.search.problem import Problem, ranks_of, single
from dmc.search.search import find
from dmc.search.written import written
from dmc.target import targets


def found_plan(observer: Observer, /, **given: Any) -> Plan:
    """The plan found for the keyword arguments of `dmc.compile`; the observer is told its lines. Raises as `find`."""
    plan = find(problem_of(**given), observer).plan
    observer.note(f'plan="auto" is\n{written(plan)}')
    return plan


def problem_of(
    *,
    model: Any,
    optimizer: Any = None,
    example: Any = None,
    loss: Any = None,
    phases: Any = None,
    precision: str = "fp32",
    accumulate: Any = None,
    mesh: Any = None,
    target: str = "cpu",
    machine: str | None = None,
    memory_cap: int | None = None,
    tuning: Any = None,
    seed: int = 0,
    **_: Any,
) -> Problem:
    """The problem that keyword arguments of `dmc.compile` describe. What else it takes does not change the plan.

    Raises PlanError where the machine or its number of devices is not given, for a mesh, phases and several examples;
    DmcError as `dmc.compile` does.
    """
    if optimizer is None or example is None:
        raise PlanError("a search for a plan", "has no optimizer or no example", "pass both, as to dmc.compile")
    if phases is not None:
        raise PlanError("phases", "are given, but a plan is searched for one step", hint="write the plan: plan=…")
    if mesh is not None:
        raise PlanError("mesh", "is given, but the search chooses one", hint="leave mesh= out, or pass a plan for it")
    if machine is None:
        hint = "name the machine, as machine='h100x4'"
        raise PlanError("a search for a plan", "has no machine whose devices it could use", hint)
    if not isinstance(accumulate, int | None):
        raise PlanError("accumulate", f"is {accumulate!r}", hint="a search takes one number of micro-batches, or none")
    one = single(example)
    check_meaning(loss, one, seed)
    check_model(model, loss)
    given = (model, loss, optimizer, one, precision_named(precision), target, machine, ranks_of(machine))
    table = tuning_table(tuning, targets(target))
    return Problem(*given, memory_cap=memory_cap or 0, accumulate=accumulate, seed=seed, tuning=table)
