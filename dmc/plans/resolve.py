"""A plan and a model's names and shapes → the placement of every tensor, each with the rule that decided it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dmc.errors import PlanError
from dmc.plans.activations import constrain
from dmc.plans.builder import Plan, Recipe
from dmc.plans.cut import cut
from dmc.plans.layout import AxisUse, Layout, replicated
from dmc.plans.patterns import find
from dmc.plans.pipelines import check_cuts, resolve_pipeline
from dmc.plans.resolved import ResolvedPlan
from dmc.plans.rules import (
    DataParallel,
    ExpertParallel,
    Megatron,
    Replicate,
    ReplicateInput,
    Rule,
    Shard,
    ShardInput,
)
from dmc.plans.tensors import InputPlan, TensorPlan
from dmc.plans.uneven import Factors, pads_of, units_of
from dmc.plans.zero import FROZEN, GRADIENT, OPTIMIZER, PARAMETER, is_freed, split_from_stage
from dmc.program.signature import StateSpec, TensorSpec

_STATE = "parameter or buffer"
OWN_ROLES = ("parameter", "frozen", "buffer")  # What a pattern can name; other state follows its parameter.


def resolve(
    plan: Plan,
    state: Iterable[StateSpec],
    modules: Iterable[str],
    batch: Iterable[TensorSpec],
    accumulate: int = 1,
    factors: Mapping[str, Sequence[Factors]] | None = None,
) -> ResolvedPlan:
    """Applies `plan` to a model.

    state: the state tensors of its step (`Signature.state`) with global shapes. modules: the paths of its modules.
    batch: its inputs, with the whole batch of all ranks and micro-batches. accumulate: the number of micro-batches.
    factors: of the dimensions of parameters, by name, such as heads and their elements.

    Raises PlanError for a pattern that matches nothing, an axis used twice in a tensor, a dimension that does not
    exist, one that is not made of the blocks, a batch that is not divisible into micro-batches, and a pipeline whose
    cuts do not each name one module.
    """
    assert not any(isinstance(rule, Megatron) for rule in plan.rules), "stands for rules that depend on the model"
    modules = list(modules)
    specs = {spec.name: spec for spec in state if spec.role in OWN_ROLES}
    inputs = {spec.name: spec for spec in batch}
    unmatched: list[Rule] = []
    return ResolvedPlan(
        mesh=plan.mesh,
        accumulate=accumulate,
        tensors=_tensors(plan, specs, unmatched, factors or {}),
        inputs=_inputs(plan, inputs, accumulate),
        activations=constrain(plan.rules, modules, unmatched),
        pipeline=resolve_pipeline(plan.rules, modules, accumulate),
        unmatched=tuple(str(rule) for rule in plan.rules if rule in unmatched),
    )


def check_patterns(plan: Plan, shapes: Mapping[str, tuple[int, ...]], modules: Iterable[str]) -> None:
    """Raises PlanError for a pattern that matches none of the parameters and buffers, by name, or of the modules.

    It needs no step, so a plan for another model is refused before anything is traced; so is a pipeline whose cuts do
    not each name one module, or whose schedule cannot be read.
    """
    modules = list(modules)
    for rule in plan.rules:
        if isinstance(rule, Shard | ExpertParallel | Replicate):
            find(rule, rule.pattern, shapes, _STATE, isinstance(rule, Shard) and rule.optional)
    check_cuts(plan.rules, modules)
    constrain(plan.rules, modules, [])


def data_parts(plan: Recipe | None) -> int:
    """The number of parts into which data parallelism divides a batch."""
    if not isinstance(plan, Plan):
        return 1
    return plan.mesh.group_size(rule.axis for rule in plan.rules if isinstance(rule, DataParallel))


def _tensors(
    plan: Plan, specs: Mapping[str, StateSpec], unmatched: list[Rule], factors: Mapping[str, Sequence[Factors]]
) -> dict[str, TensorPlan]:
    names: dict[str, tuple[int, ...]] = {}
    owner: dict[str, str] = {}
    for spec in specs.values():
        for name in (spec.name, *spec.aliases):
            names[name], owner[name] = spec.shape, spec.name
    used = {name: replicated(len(spec.shape)) for name, spec in specs.items()}
    kept = dict.fromkeys(specs, "")
    for rule in plan.rules:
        if not isinstance(rule, Shard | ExpertParallel | Replicate):
            continue
        optional = isinstance(rule, Shard) and rule.optional
        found = find(rule, rule.pattern, names, _STATE, optional)
        if not found:
            unmatched.append(rule)
        for name in dict.fromkeys(owner[name] for name in found):
            if isinstance(rule, Replicate):
                used[name], kept[name] = replicated(len(specs[name].shape)), str(rule)
            else:
                use = AxisUse(rule.axis, rule.blocks, str(rule))
                used[name], kept[name] = cut(used[name], specs[name], rule.dim, use), ""
    data = [rule for rule in plan.rules if isinstance(rule, DataParallel)]
    units = {name: units_of(factors[name], used[name], plan.mesh) if name in factors else () for name in specs}
    return {name: _trained(plan, spec, used[name], data, kept[name], units[name]) for name, spec in specs.items()}


def _trained(
    plan: Plan, spec: StateSpec, used: Layout, data: Sequence[DataParallel], kept: str, units: Sequence[int]
) -> TensorPlan:
    """What data parallelism and ZeRO do with a tensor that the step uses in layout `used`."""
    if spec.role == "buffer":
        return TensorPlan(spec, used, used, kept=kept, pads=pads_of(spec.shape, [used], plan.mesh))

    def split(stage: int) -> Layout:
        return split_from_stage(used, spec.shape, plan.mesh, data, stage, units)

    stored = used if kept else split(FROZEN if spec.role == "frozen" else PARAMETER)
    freed = is_freed(stored, used, data)
    if spec.role == "frozen":
        pads = pads_of(spec.shape, [used, stored], plan.mesh, units)
        return TensorPlan(spec, stored, used, kept=kept, is_freed=freed, pads=pads)
    own = {use.axis for use in used.splits}
    # Along an axis that splits the tensor itself, each rank's piece meets the data of all ranks.
    partial = tuple(AxisUse(rule.axis, rule=str(rule)) for rule in data if rule.axis not in own)
    gradient, reduced, optimizer = replace(used, partial=partial), split(GRADIENT), split(OPTIMIZER)
    pads = pads_of(spec.shape, [used, stored, reduced, optimizer], plan.mesh, units)
    return TensorPlan(spec, stored, used, gradient, reduced, optimizer, kept, freed, pads)


def _inputs(plan: Plan, specs: Mapping[str, TensorSpec], accumulate: int) -> dict[str, InputPlan]:
    kept_by: dict[str, Rule] = {}
    rules_of: dict[str, list[ShardInput]] = {name: [] for name in specs}
    names = {name: spec.shape for name, spec in specs.items()}
    for rule in plan.rules:
        if not isinstance(rule, ShardInput | ReplicateInput):
            continue
        for name in find(rule, rule.pattern, names, "input"):
            if isinstance(rule, ShardInput):
                rules_of[name].append(rule)
            else:
                kept_by[name], rules_of[name] = rule, []
    data = [rule for rule in plan.rules if isinstance(rule, DataParallel)]
    resolved: dict[str, InputPlan] = {}
    for name, spec in specs.items():
        layout = replicated(len(spec.shape))
        if spec.shape and name not in kept_by:
            layout = _batch_layout(plan, spec, data, accumulate)
        for rule in rules_of[name]:
            blocks = accumulate if rule.dim in (0, -len(spec.shape)) else 1
            layout = cut(layout, spec, rule.dim, AxisUse(rule.axis, blocks, str(rule)))
        kept = str(kept_by[name]) if name in kept_by and not rules_of[name] else ""
        resolved[name] = InputPlan(spec, layout, kept, pads_of(spec.shape, [layout], plan.mesh))
    return resolved


def _batch_layout(plan: Plan, spec: TensorSpec, data: Sequence[DataParallel], accumulate: int) -> Layout:
    """Dimension 0 as `accumulate` consecutive micro-batches, each split over every data axis.

    Thus micro-batch k of all ranks together is micro-batch k of a single rank.
    """
    if spec.shape[0] % accumulate:
        raise PlanError(
            f"input '{spec.name}' {list(spec.shape)}",
            f"a batch of {spec.shape[0]} is not divisible into accumulate={accumulate} micro-batches",
            hint=f"make dimension 0 a multiple of {accumulate}, or call .replicate_input('{spec.name}') if it has no "
            f"batch dimension",
        )
    uses = tuple(AxisUse(rule.axis, accumulate, str(rule)) for rule in data)
    return Layout((uses, *((),) * (len(spec.shape) - 1)))
