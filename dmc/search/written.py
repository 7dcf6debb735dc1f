"""A plan as the lines that make it."""

from __future__ import annotations

from dmc.plans import Plan
from dmc.plans.rules import ExpertParallel, Megatron, Rule


def written(plan: Plan) -> str:
    """Python lines that make an equal plan, given `import dmc`: to keep, edit, and pass as `plan=`."""
    lines = [f"dmc.plan(dmc.{plan.mesh})", *map(line_of, plan.rules)]
    if len(lines) <= 1:
        return f"plan = {lines[0]}"
    return "\n".join(["plan = (", *(f"    {each}" for each in lines), ")"])


def line_of(rule: Rule) -> str:
    """The line that adds a rule to a plan."""
    if isinstance(rule, Megatron):
        return f'.use(dmc.plans.{rule.verb}("{rule.axis}"))'
    if isinstance(rule, ExpertParallel):
        return f'.{rule.verb}("{rule.axis}", "{rule.pattern}")'
    # What follows the name of a recipe; a rule's text is the call that makes it.
    return f".{str(rule).removeprefix(f'{rule.recipe}: ')}"
