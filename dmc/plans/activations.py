"""Rules about activations, applied to the paths of a model's modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from dmc.errors import PlanError
from dmc.plans.layout import AxisUse
from dmc.plans.patterns import find
from dmc.plans.rules import Rule, SequenceParallel, ShardActivation
from dmc.plans.tensors import ActivationPlan, Side

Value = tuple[str, Side]
Dims = dict[int | None, tuple[AxisUse, ...]]


def constrain(rules: Sequence[Rule], modules: Sequence[str], unmatched: list[Rule]) -> tuple[ActivationPlan, ...]:
    """The constraints of `rules` on the inputs and outputs of modules, in the order of `modules`.

    Optional rules that match nothing are added to `unmatched`. Raises PlanError for other patterns that match
    nothing, and where two rules put one axis on two dimensions of one value.
    """
    names = dict.fromkeys(modules)
    values: dict[Value, Dims] = {}
    for rule in rules:
        for pattern, sides, optional in _asked(rule):
            found = find(rule, pattern, names, "module", optional)
            if not found:
                unmatched.append(rule)
            asked: list[Value] = [(module, side) for module in found for side in sides]
            for value in asked:
                _add(values.setdefault(value, {}), value, rule)
    order: list[Value] = [(module, side) for module in modules for side in get_args(Side)]
    return tuple(ActivationPlan(*value, values[value]) for value in order if value in values)


def _asked(rule: Rule) -> list[tuple[str, tuple[Side, ...], bool]]:
    """Pattern, sides of the module and whether it is optional, for each pattern of a rule about activations."""
    if isinstance(rule, ShardActivation):
        return [(rule.pattern, ("output",), rule.optional)]
    if isinstance(rule, SequenceParallel):
        return [(pattern, ("input", "output"), False) for pattern in rule.between]
    return []


def named(dim: int | None) -> str:
    """A dimension of a constraint, in words."""
    return "tokens" if dim is None else f"dimension {dim}"


def _add(dims: Dims, value: Value, rule: Rule) -> None:
    assert isinstance(rule, ShardActivation | SequenceParallel)
    use = AxisUse(rule.axis, rule=str(rule))
    for dim, uses in dims.items():
        other = next((other for other in uses if other.axis == use.axis), None)
        if other is not None and dim == rule.dim:
            return
        if other is not None:
            module, side = value
            raise PlanError(
                f"{side} of {module}",
                f"axis '{use.axis}' is used twice: on {named(dim)} by {other.rule}, and on {named(rule.dim)} by "
                f"{use.rule}",
                hint="an axis splits a value once; drop one of the rules",
            )
    dims[rule.dim] = (*dims.get(rule.dim, ()), use)
