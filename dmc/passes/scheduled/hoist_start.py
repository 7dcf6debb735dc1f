"""dm-hoist-start."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes.base import Pass
from dmc.passes.shared.motion import Distances, Moves, Order, hoisted
from dmc.passes.shared.report import named, print_table
from dmc.passes.shared.starts import check_started, lane_name
from dmc.step_function import find_step

HEAD = ("movement", "queue", "up by ops", "bytes of kernels", "stopped by")


@dataclass(frozen=True)
class HoistStart(Pass):
    """Moves each start up to just after the producer of its operand, so that it overlaps with what was before it.

    `%a = f(..); %b = g(..); start(%a)` becomes `%a = f(..); start(%a); %b = g(..)`. No start passes a token that it
    waits for, nor another start of its lane (a queue and, where it has one, a channel), because lanes are in order.
    Views and packs in between move along. A value computed early is live longer: dm-schedule decides what that may
    cost. reasons: print how far each start moved and what stopped it, on stderr. Linear in the number of operations,
    except for sorting.
    """

    name = "dm-hoist-start"
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a movement that is not started."""
        block = find_step(module).entry_block
        check_started(block)
        order = Order.of(block)
        moves = hoisted(order, starts=True)
        if self.reasons:
            print_table(HEAD, _rows(order, moves))
        order.place(moves.keys)


def _rows(order: Order, moves: Moves) -> list[tuple[object, ...]]:
    distances = Distances.of(order, moves.keys)
    rows: list[tuple[object, ...]] = []
    for i, stopper in moves.stopped.items():
        if isinstance(start := order.ops[i].opview, dm.StartOp):
            passed = distances.between(moves.keys[i][0], i)
            why = named(order.ops[stopper]) if stopper >= 0 else "start of the step"
            rows.append((named(dm.movement_of(start).operation), lane_name(start), *passed, why))
    return rows
