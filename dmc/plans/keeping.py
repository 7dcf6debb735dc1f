"""Rules about what is kept for the backward pass, and of the optimizer's state, applied to a model's names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dmc.errors import PlanError
from dmc.plans.patterns import find
from dmc.plans.rules import Keeping, OffloadOptimizer, Rule
from dmc.plans.verbs import Verb
from dmc.program.signature import StateSpec


def keeping(rules: Sequence[Rule], modules: Iterable[str]) -> tuple[Keeping, ...]:
    """Those of `rules` that say what is kept. Raises PlanError for a pattern that matches no module."""
    names = dict.fromkeys(modules)
    found = tuple(rule for rule in rules if isinstance(rule, Keeping))
    for rule in found:
        find(rule, rule.pattern, names, "module")
    return found


def waiting_state(rules: Sequence[Rule], state: Iterable[StateSpec]) -> tuple[str, ...]:
    """The optimizer's state that waits in host memory by `rules`, of a step's `Signature.state`. Raises PlanError for a
    pattern that matches no parameter with such state."""
    state = list(state)
    slots: dict[str, list[str]] = {}
    for spec in state:
        if spec.role == "optimizer" and spec.shape and 0 not in spec.shape:
            slots.setdefault(spec.name.rpartition(".")[0], []).append(spec.name)
    own = [spec for spec in state if spec.role == "parameter" and spec.name in slots]
    owner = {name: spec.name for spec in own for name in (spec.name, *spec.aliases)}
    shapes = {name: spec.shape for spec in own for name in (spec.name, *spec.aliases)}
    found: dict[str, None] = {}
    for rule in rules:
        if isinstance(rule, OffloadOptimizer):
            matched = find(rule, rule.pattern, shapes, "parameter with optimizer state")
            found.update(dict.fromkeys(slot for name in matched for slot in slots[owner[name]]))
    return tuple(found)


def check_for_one_rank(rules: Iterable[Rule]) -> None:
    """Raises PlanError for a rule that places tensors, in a plan without a mesh."""
    for rule in rules:
        if not isinstance(rule, Keeping | OffloadOptimizer | Verb):
            raise PlanError(str(rule), "requires a mesh", hint="create the plan with dmc.plan(mesh)")
