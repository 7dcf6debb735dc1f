"""dm-propagate-sharding."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.sharding.attributes import fixed_in, write
from dmc.analysis.sharding.decisions import Decision
from dmc.analysis.sharding.ends import SHARDING, ends_of, find_mesh, has_mesh
from dmc.analysis.sharding.pins import pins_in
from dmc.analysis.sharding.propagation import propagate
from dmc.analysis.sharding.table import table
from dmc.dialect.kinds import traits_of
from dmc.passes.base import Pass
from dmc.passes.shared.opened import decomposition, is_composite, open_composites
from dmc.step_function import find_step


@dataclass(frozen=True)
class PropagateSharding(Pass):
    """Derives the placement of every value of `@step` on the mesh, and states it as attributes of the operations.

    Arguments have the placement in which they arrive (`dm.sharding`) and are used (`dm.used`); an operation that
    already has `dm.sharding` keeps it. `%y = matmul(%x, %w)`, the rows of `%x` split over dp, gets `dm.sharding =
    [#dm.sharding<@mesh, [["dp"], []], {}>], dm.loops = [["dp"], [], []]`. A composite whose rule would gather its
    largest operand is inlined first, since its decomposition may be splittable.

    Without a mesh nothing changes. reasons: also state why, as `dm.reason`. table: print the decisions on stderr, one
    line each: what is split, what could not be, the bytes that it costs, and why.
    """

    name = "dm-propagate-sharding"
    reasons: bool = False
    table: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for several meshes, or a stated sharding that does not fit."""
        if not has_mesh(module):
            return
        mesh, _ = find_mesh(module)
        decisions = decide(module)
        while names := {decomposition(each.op) for each in decisions if _is_worth_opening(each)}:
            # All of a kind at once: after one that gathers, nothing is split, and the next would not seem worthwhile.
            open_composites(module, find_step(module), names)
            decisions = decide(module)
        if self.table:
            print(table(decisions), file=sys.stderr)
        for decision in decisions:
            write(decision, mesh, self.reasons)


def decide(module: ir.Module) -> tuple[Decision, ...]:
    """The decisions for `@step` as it is. Raises DmcError as the pass does."""
    dm.verify_symbols(module)
    _, mesh = find_mesh(module)
    step = find_step(module)
    return propagate(step, mesh, ends_of(step, mesh), fixed_in(step, mesh), pins_in(step))


def _is_worth_opening(decision: Decision) -> bool:
    op = decision.op
    if not is_composite(op) or SHARDING in op.attributes:
        return False
    if traits_of(op).is_lookup:
        return False  # Its decomposition also looks up the whole table.
    sizes = [_size(operand) for operand in op.operands]
    return any(sizes[operand] == max(sizes) for operand, _ in decision.choice.refused)


def _size(value: ir.Value) -> int:
    size = 1
    for extent in value.type.shape if isinstance(value.type, ir.RankedTensorType) else ():
        size *= extent
    return size
