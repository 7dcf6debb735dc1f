"""Whether a ready-made plan is for layers of the kind that a model has.

`nn.Linear` has weights [out, in], `Conv1D` of GPT-2 [in, out]: a plan for one cuts the wrong dimension of the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from dmc.errors import PlanError
from dmc.plans.builder import Plan
from dmc.plans.patterns import matcher
from dmc.plans.rules import Shard

# By recipe: the class of the layers whose weights its rules cut.
LAYERS = {"megatron_gpt2": "Conv1D", "megatron_llama": "Linear", "megatron_bert": "Linear", "megatron_t5": "Linear"}
_WEIGHTS = {"Linear": "[out, in]", "Conv1D": "[in, out]"}


def check_layers(plan: Plan, classes: Mapping[str, tuple[str, ...]]) -> None:
    """Raises PlanError for a rule of a ready-made plan that cuts the weight of a layer of another kind.

    classes: by the path of each module, the names of its class and of those that it is derived from.
    """
    for rule in plan.rules:
        meant = LAYERS.get(rule.recipe) if isinstance(rule, Shard) else None
        # Optional rules are for heads, which are of either kind.
        if meant is None or not isinstance(rule, Shard) or rule.optional:
            continue
        for path, own in classes.items():
            found = next((kind for kind in _WEIGHTS if kind in own), meant)
            if found != meant and any(matcher(each.strip())(f"{path}.weight") for each in rule.pattern.split("|")):
                fact = (
                    f"is for weights of {meant}, {_WEIGHTS[meant]}, but '{path}' is a {found}, whose are "
                    f"{_WEIGHTS[found]}"
                )
                hint = f'use dmc.plans.megatron("{rule.axis}"), which finds the layers of any model'
                raise PlanError(str(rule), fact, hint)
