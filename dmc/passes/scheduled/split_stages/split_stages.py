"""dm-split-stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.requests.pipeline import pipeline_of
from dmc.analysis.requests.settings import costs_of
from dmc.analysis.storage.fixed import is_on
from dmc.analysis.times import Times
from dmc.dialect.placements import mesh_of
from dmc.errors import PlanError
from dmc.passes.base import Pass
from dmc.passes.scheduled.split_stages.assignment import Assignment
from dmc.passes.scheduled.split_stages.costs import costs_of_stages
from dmc.passes.scheduled.split_stages.emission import Wires, module_of
from dmc.passes.scheduled.split_stages.flow import Flow
from dmc.passes.scheduled.split_stages.messages import in_one_order
from dmc.passes.scheduled.split_stages.programs import actions_of, programs_of
from dmc.plans.pipelines import PipelinePlan
from dmc.schedules import SEARCHED, Action, Table, check, layout, read_csv, schedule, searched_by_name
from dmc.stages import put_in
from dmc.step_function import find_step, mutated_state, results

# Micro-batches for each rank, more than any schedule wants at least.
_MANY = 4


@dataclass(frozen=True)
class SplitStages(Pass):
    """Splits `@step` into what each rank of a pipeline runs, as `dm.pipeline` says: a module for each.

    `%a = f(%x); %b = g(%a)`, where g's module begins the second stage, becomes `%a = f(%x); send(%a)` in `module
    @stage0`, and `%a = recv; %b = g(%a)` in `module @stage1`. The loop of micro-batches is gone: each rank runs its
    stages' forward and backward passes in the order of its row of the schedule. What is computed of inputs and
    constants alone, such as masks, each rank computes for itself; every other value that another rank reads is sent to
    it once, also weights that two stages share, and the numbers of which a norm over all gradients consists. Each
    message starts after the one before it, so that no later pass brings them out of the schedule's order
    (dm-pace-messages). Does nothing without `dm.pipeline`. Linear in operations times micro-batches.
    """

    name = "dm-split-stages"
    is_whole = True

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for modules that cannot be cut where the plan says."""
        asked = pipeline_of(module)
        if asked is None:
            return
        with module.context, ir.Location.unknown():
            _split(module, asked)


def _split(module: ir.Module, asked: PipelinePlan) -> None:
    step = find_step(module)
    (declared,) = [op for op in module.body.operations if isinstance(op, dm.MeshOp)]
    mesh = mesh_of(declared)
    ranks = mesh.axis_size(asked.axis)
    table = _table(asked, ranks)
    given = list(zip(step.arguments, step.arg_attrs, strict=True))
    kept = [[value for value, own in given if is_on(own, rank)] for rank in range(ranks)]
    flow = Flow.of(step, asked.microbatches, _homes(kept, table))
    assignment, times = Assignment.of(flow, asked.cut), Times(module, costs_of(module))
    if asked.schedule == SEARCHED:
        table = searched_by_name(costs_of_stages(assignment, times), ranks, asked.microbatches)
    changed = {result.index: step.arguments[argument.index] for argument, result in mutated_state(step)}
    programs = programs_of(assignment, table, kept, results(step), changed, times)
    numbers = in_one_order(programs)
    wires = Wires(asked.axis, declared.sym_name.value, numbers, actions_of(programs))
    made = [module_of(module, step, flow, program, wires) for program in programs]
    for view in list(module.body.operations):
        view.operation.erase()
    for own in made:
        put_in(own, module)


def _table(asked: PipelinePlan, ranks: int) -> Table:
    """What each rank does, in order. Raises PlanError for a schedule that does not fit, or is wrong."""
    # Of one micro-batch, as of an evaluation, a schedule says where the stages are, whatever number it wants.
    count = asked.microbatches if asked.microbatches > 1 else _MANY * ranks
    table = _of(asked, ranks, count)
    if table.ranks != ranks:
        fact = f"number of its rows: {table.ranks}; of ranks along '{asked.axis}': {ranks}"
        raise PlanError(f"schedule '{asked.schedule}'", fact, "give a row for each rank")
    if asked.microbatches == 1:
        table = _in_turn(table)
    check(table, asked.stages, asked.microbatches)
    _check_sums(table)
    return table


def _of(asked: PipelinePlan, ranks: int, count: int) -> Table:
    if asked.table:
        return read_csv(asked.table)
    # Its order is found once the times of stages are known.
    if asked.schedule == SEARCHED:
        return layout(ranks, count, asked.chunks)
    return schedule(asked.schedule, ranks, count, asked.chunks)


def _check_sums(table: Table) -> None:
    """Raises PlanError where the passes of a stage are not in the order of micro-batches, in which losses, gradients
    and running statistics are added up."""
    last: dict[tuple[int, str], Action] = {}
    for rank, column, action in table.cells():
        for kind in "IW" if action.kind == "B" else action.kind:
            before = last.get((action.stage, kind))
            if before is not None and before.micro > action.micro:
                fact = f"comes after {before}, but what micro-batches add to is added to in their order"
                hint = "let each stage run its forward passes, and its backward passes, by number of micro-batch"
                raise PlanError(f"rank {rank}, column {column}, {action.in_words()}", fact, hint)
            last[action.stage, kind] = action


def _in_turn(table: Table) -> Table:
    """One micro-batch, forward through all stages of a table and backward."""
    forward = [Action("F", stage, 0) for stage in range(table.stages)]
    actions = [*forward, *(Action("B", each.stage, 0) for each in reversed(forward))]
    rows = ([each for each in actions if table.ranks_of[each.stage] == rank] for rank in range(table.ranks))
    return Table(tuple(map(tuple, rows)), table.ranks_of)


def _homes(kept: Sequence[Sequence[ir.Value]], table: Table) -> dict[ir.Value, int]:
    """For the arguments that it is decided that some ranks have, and others not, the first stage of such a rank."""
    holders: dict[ir.Value, list[int]] = {}
    for rank, values in enumerate(kept):
        for value in values:
            holders.setdefault(value, []).append(rank)
    some = {value: ranks for value, ranks in holders.items() if len(ranks) < len(kept)}
    return {value: min(s for s, rank in enumerate(table.ranks_of) if rank in ranks) for value, ranks in some.items()}
