"""The plan language: `dmc.plan(mesh)` and the methods that add rules to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, overload

from dmc.errors import PlanError
from dmc.mesh import Mesh
from dmc.plans.pipelines import TABLE, check_pipelines
from dmc.plans.rules import (
    DataParallel,
    ExpertParallel,
    Keep,
    Offload,
    OffloadOptimizer,
    Pipeline,
    Recompute,
    Replicate,
    ReplicateInput,
    Rule,
    SequenceParallel,
    Shard,
    ShardActivation,
    ShardInput,
)
from dmc.plans.verb_methods import VerbMethods
from dmc.schedules import NAMES, SEARCHED

STAGES = (0, 1, 2, 3)


@dataclass(frozen=True)
class Recipe(VerbMethods):
    """Rules without a mesh: a ready-made plan. Every method returns a new recipe with one more rule.

    Patterns are shell patterns over module paths (`*`, `?`, `[0-3]`; `*` also crosses dots), alternatives joined by
    "|". A pattern may start at any module, so "h.*.attn" matches "transformer.h.0.attn"; one that begins with a dot
    starts at the model itself. Tied parameters are matched by any of their names. Each alternative must match
    something, unless the rule is `optional`. Rules are applied in order; splits of one tensor over different axes add
    up, major first.

    An axis that the mesh does not have raises PlanError where the rule is added; a pattern that matches nothing, and a
    dimension that cannot be divided, when the step is compiled.
    """

    name: str = ""
    rules: tuple[Rule, ...] = ()

    def data_parallel(self, axis: str, zero: int = 0) -> Self:
        """Splits dimension 0 of every input over `axis`, and with ZeRO (Rajbhandari et al. 2020, section 5) state too.

        zero=1 splits the optimizer state; 2 also the reduced gradients and, between steps, trained parameters, which a
        step gathers once and keeps for the backward pass; 3 also those that are not trained,
        and each pass gathers what is large for itself.
        With `accumulate`, each micro-batch is split. Several axes may be data parallel.
        """
        if zero not in STAGES:
            raise PlanError("data_parallel", f"zero={zero!r} is not a stage of ZeRO", hint="use 0 (none), 1, 2 or 3")
        return self._with(DataParallel(axis, zero, recipe=self.name))

    def shard(self, pattern: str, *, dim: int, axis: str, blocks: int = 1, optional: bool = False) -> Self:
        """Splits dimension `dim` of the matching parameters and buffers over `axis`.

        blocks: the number of equal blocks side by side in the dimension, each of which is split (3 for fused queries,
        keys and values: every rank gets a part of each).
        """
        if blocks < 1:
            raise PlanError("shard", f"blocks={blocks}", hint="the number of fused blocks must be at least 1")
        return self._with(Shard(pattern, dim, axis, blocks, optional, recipe=self.name))

    def replicate(self, pattern: str) -> Self:
        """Replicates the matching parameters and buffers: undoes earlier rules, and what ZeRO does to them."""
        return self._with(Replicate(pattern, recipe=self.name))

    def shard_input(self, pattern: str, *, dim: int, axis: str) -> Self:
        """Splits dimension `dim` of the matching batch inputs over `axis`, after the axes of data parallelism."""
        return self._with(ShardInput(pattern, dim, axis, recipe=self.name))

    def replicate_input(self, pattern: str) -> Self:
        """Replicates the matching batch inputs: for inputs without a batch dimension."""
        return self._with(ReplicateInput(pattern, recipe=self.name))

    def shard_activation(self, pattern: str, *, dim: int, axis: str, optional: bool = False) -> Self:
        """Splits dimension `dim` (negative: from the end) of the matching modules' outputs over `axis`."""
        return self._with(ShardActivation(pattern, dim, axis, optional, recipe=self.name))

    def sequence_parallel(self, axis: str, *, between: Sequence[str], dim: int | None = None) -> Self:
        """Computes the modules `between` the tensor-parallel parts on tokens split over `axis`.

        Their inputs and outputs are split along `dim` (Korthikanti et al. 2022, section 4.2.2: along the sequence).
        By default that is the batch, whose parts are contiguous and therefore move without a copy, or the sequence,
        dimension 1, where a rank's batch is not divisible.
        """
        patterns = (between,) if isinstance(between, str) else tuple(between)
        if not patterns:
            raise PlanError("sequence_parallel", "requires at least one module", hint='pass between=["h.*.ln_1", …]')
        return self._with(SequenceParallel(axis, patterns, dim, recipe=self.name))

    def expert_parallel(self, axis: str, *patterns: str) -> Self:
        """Splits the experts, dimension 0 of the matching parameters, over `axis`."""
        if not patterns:
            raise PlanError(
                "expert_parallel", "requires at least one parameter", hint="pass the patterns of the experts' weights"
            )
        return self._with(ExpertParallel(axis, "|".join(patterns), recipe=self.name))

    def recompute(self, pattern: str) -> Self:
        """Keeps only the outputs of the matching modules for the backward pass, and computes there again what it reads
        of their inside, with the same bits.

        Of nested modules that match, the outermost counts: "h.*" keeps what blocks pass on, and nothing else.
        """
        return self._with(Recompute(pattern, recipe=self.name))

    def keep(self, pattern: str) -> Self:
        """Keeps what the matching modules compute for the backward pass, whatever earlier rules or a cap say."""
        return self._with(Keep(pattern, recipe=self.name))

    def offload(self, pattern: str) -> Self:
        """Moves what the matching modules compute for the backward pass to host memory, and back before it is read
        there, with the same bits.

        The copies run beside the kernels; what the module computes cheaply on a GPU is still computed again.
        """
        return self._with(Offload(pattern, recipe=self.name))

    def offload_optimizer(self, pattern: str = "*") -> Self:
        """Keeps the optimizer's state of the matching parameters in host memory, with the same bits.

        A step copies each tensor of it to the device for the update, and its new value back, beside the kernels.
        Numbers, such as a count of steps, stay on the device.
        """
        return self._with(OffloadOptimizer(pattern, recipe=self.name))

    def pipeline(
        self,
        axis: str,
        *,
        cut: Sequence[str] | Literal["balanced"],
        microbatches: int | None = None,
        schedule: str | os.PathLike[str] = "1f1b",
        chunks: int = 1,
    ) -> Self:
        """Cuts the model into stages, each of which runs on one rank along `axis`, and none elsewhere.

        cut: the modules that begin the second stage and those behind it, a pattern each that matches one module; or
        "balanced", for stages that take about equally long on the machine and begin at the model's blocks (members of
        lists, such as `h.3`). chunks: the number of stages of each rank. microbatches: into how many a batch is
        divided, which is `accumulate` of `dmc.compile`; either says it. schedule: the order in which a rank runs the
        forward and backward passes of its stages, by name (`dmc.schedules.NAMES`), "searched" for one that is made for
        the times of the stages, or the path of a CSV file with a row for each rank, in the form of
        `torch.distributed.pipelining`.
        """
        # A caller without a type checker may pass anything.
        numbers: dict[str, Any] = {"microbatches": 1 if microbatches is None else microbatches, "chunks": chunks}
        if isinstance(cut, str) and cut != "balanced":
            raise PlanError("pipeline", f"cut={cut!r} is no list of modules", hint=f'use cut=["{cut}"], or "balanced"')
        for name, value in numbers.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise PlanError("pipeline", f"{name}={value!r}", hint="it must be an integer of at least 1")
        cuts, order = "balanced" if isinstance(cut, str) else tuple(cut), os.fspath(schedule)
        if not order.endswith(TABLE) and order not in (*NAMES, SEARCHED):
            hint = f"use one of {', '.join((*NAMES, SEARCHED))}, or the path of a CSV file"
            raise PlanError("pipeline", f"schedule={order!r} is unknown", hint)
        return self._with(Pipeline(axis, cuts, microbatches, order, chunks, recipe=self.name))

    def use(self, recipe: Recipe) -> Self:
        """Adds the rules of a ready-made plan, such as `dmc.plans.megatron_gpt2("tp")`."""
        # A caller without a type checker may well pass `dmc.plans.zero2` itself.
        given: Any = recipe
        if not isinstance(given, Recipe):
            hint = "call it with an axis, as in .use(dmc.plans.zero2('dp'))" if callable(given) else ""
            raise PlanError("use", f"expected a ready-made plan, got {type(given).__name__}", hint)
        return self._with(*given.rules)

    def _with(self, *rules: Rule) -> Self:
        return replace(self, rules=(*self.rules, *rules))


@dataclass(frozen=True, kw_only=True)
class Plan(Recipe):
    """Rules over a mesh; `resolve` applies them to a model. Axes are checked as rules are added."""

    mesh: Mesh

    def _with(self, *rules: Rule) -> Self:
        axes_of_data = {rule.axis: rule for rule in self.rules if isinstance(rule, DataParallel)}
        for rule in rules:
            for axis in rule.axes:
                if axis not in self.mesh.axes:
                    hint = f"the axes are {', '.join(self.mesh.axes)}"
                    raise PlanError(str(rule), f"axis '{axis}' does not exist in {self.mesh}", hint)
            if isinstance(rule, DataParallel):
                if rule.axis in axes_of_data:
                    raise _twice(rule.axis, axes_of_data[rule.axis], rule)
                axes_of_data[rule.axis] = rule
        for rule in (*self.rules, *rules):
            if isinstance(rule, SequenceParallel) and rule.axis in axes_of_data:
                raise _twice(rule.axis, axes_of_data[rule.axis], rule)
        check_pipelines((*self.rules, *rules), self.mesh)
        return super()._with(*rules)


@overload
def plan(mesh: Mesh) -> Plan:
    """A plan over `mesh`."""


@overload
def plan() -> Recipe:
    """A plan for one rank."""


def plan(mesh: Mesh | None = None) -> Recipe:
    """An empty plan over `mesh`: everything is replicated until rules say otherwise.

    Without a mesh, a plan for one rank, which can say what is kept for the backward pass, and what waits in host
    memory.
    """
    return Recipe() if mesh is None else Plan(mesh=mesh)


def recipe(name: str) -> Recipe:
    """An empty ready-made plan; add rules with the methods of the plan language. Decisions cite it as `name`."""
    return Recipe(name)


def _twice(axis: str, first: Rule, second: Rule) -> PlanError:
    return PlanError(str(second), f"axis '{axis}' already splits the batch, by {first}", hint="use another axis")
