"""Ready-made plans, to be used on a mesh:
`dmc.plan(mesh).use(dmc.plans.zero2("dp")).use(dmc.plans.megatron_gpt2("tp"))`.

`recipe(name)` starts a ready-made plan of your own. `resolve` applies a plan to a model's names and shapes;
`check_patterns` and `check_layers` refuse one for another model before anything is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dmc.plans.builder import Plan, Recipe, recipe
from dmc.plans.keeping import check_for_one_rank, keeping, waiting_state
from dmc.plans.layers import check_layers
from dmc.plans.megatron import megatron, megatron_bert, megatron_gpt2, megatron_llama, megatron_t5
from dmc.plans.parallel import data_parallel, expert_parallel, zero1, zero2, zero3
from dmc.plans.pipelines import PipelinePlan, with_balanced
from dmc.plans.resolve import check_patterns, data_parts, resolve
from dmc.plans.resolved import ResolvedPlan
from dmc.plans.rules import Keeping
from dmc.plans.verb_checks import StepFacts, check_verbs, verbs_in

__all__ = [
    "READY",
    "Keeping",
    "PipelinePlan",
    "Plan",
    "Recipe",
    "ResolvedPlan",
    "StepFacts",
    "check_for_one_rank",
    "check_layers",
    "check_patterns",
    "check_verbs",
    "data_parallel",
    "data_parts",
    "expert_parallel",
    "keeping",
    "megatron",
    "megatron_bert",
    "megatron_gpt2",
    "megatron_llama",
    "megatron_t5",
    "recipe",
    "resolve",
    "verbs_in",
    "waiting_state",
    "with_balanced",
    "zero1",
    "zero2",
    "zero3",
]

READY: Mapping[str, Callable[..., Recipe]] = {
    each.__name__: each
    for each in (
        data_parallel,
        expert_parallel,
        megatron,
        megatron_bert,
        megatron_gpt2,
        megatron_llama,
        megatron_t5,
        zero1,
        zero2,
        zero3,
    )
}
"""The ready-made plans by name."""
