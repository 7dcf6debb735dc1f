"""A plan with the rules that its `megatron` stands for in one model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from dmc._mlir import ir
from dmc.analysis.sharding.forward import Forward
from dmc.analysis.sharding.pairs import Cut, Vocabulary, pairs_of, vocabulary_of
from dmc.errors import PlanError
from dmc.mesh import Mesh
from dmc.plans import Plan, Recipe
from dmc.plans.rules import Megatron, Rule, Shard, ShardActivation
from dmc.step_function import find_step

AnyPlan = TypeVar("AnyPlan", bound=Recipe | None)


def with_structure(plan: AnyPlan, module: ir.Module) -> AnyPlan:
    """`plan` with rules for single tensors instead of `megatron`, for the step in form imported.

    Raises PlanError where the model has nothing to split.
    """
    if not isinstance(plan, Plan) or not any(isinstance(rule, Megatron) for rule in plan.rules):
        return plan
    forward, rules = Forward.of(find_step(module)), list[Rule]()
    for rule in plan.rules:
        if not isinstance(rule, Megatron):
            rules.append(rule)
            continue
        ranks = plan.mesh.axis_size(rule.axis)
        pairs, vocabulary = _pairs(forward, rule.axis, ranks), vocabulary_of(forward, _mesh(rule.axis, 1))
        if not pairs:
            raise _nothing(rule)
        rules += _of_pairs(rule, pairs)
        if vocabulary is not None:
            rules += _of_vocabulary(rule, vocabulary, pairs)
    return replace(plan, rules=tuple(rules))


def _pairs(forward: Forward, axis: str, ranks: int) -> dict[str, Cut]:
    """The pairs that split into equal parts; where padding splits further ones in the same way, these too."""
    even, every = (pairs_of(forward, _mesh(axis, size)) for size in (ranks, 1))
    return every if even.items() <= every.items() else even


def _mesh(axis: str, size: int) -> Mesh:
    return Mesh(**{axis: size})  # pyright: ignore[reportArgumentType] - no axis is called "links"


def _of_pairs(rule: Megatron, cuts: dict[str, Cut]) -> Iterator[Rule]:
    for name, (dim, blocks) in cuts.items():
        # From the root: the path of one model may be the end of another's.
        yield Shard(f".{name}", dim, rule.axis, blocks, recipe=Megatron.verb)


def _of_vocabulary(rule: Megatron, vocabulary: Vocabulary, pairs: dict[str, Cut]) -> Iterator[Rule]:
    yield from _of_pairs(rule, {name: cut for name, cut in vocabulary.cuts.items() if name not in pairs})
    if vocabulary.module:
        yield ShardActivation(f".{vocabulary.module}", -1, rule.axis, optional=True, recipe=Megatron.verb)


def _nothing(rule: Megatron) -> PlanError:
    hint = "write the rules: .shard(…)"
    return PlanError(str(rule), "finds no attention or MLP whose heads or hidden units could be split", hint)
