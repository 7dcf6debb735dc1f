"""Rules about what is kept for the backward pass, applied to the paths of a model's modules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dmc.errors import PlanError
from dmc.plans.patterns import find
from dmc.plans.rules import Keeping, Rule


def keeping(rules: Sequence[Rule], modules: Iterable[str]) -> tuple[Keeping, ...]:
    """Those of `rules` that say what is kept. Raises PlanError for a pattern that matches no module."""
    names = dict.fromkeys(modules)
    found = tuple(rule for rule in rules if isinstance(rule, Keeping))
    for rule in found:
        find(rule, rule.pattern, names, "module")
    return found


def check_for_one_rank(rules: Iterable[Rule]) -> None:
    """Raises PlanError for a rule that places tensors, in a plan without a mesh."""
    for rule in rules:
        if not isinstance(rule, Keeping):
            raise PlanError(str(rule), "requires a mesh", hint="create the plan with dmc.plan(mesh)")
