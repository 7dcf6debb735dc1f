"""dm-sink-wait."""

from __future__ import annotations

from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes.base import Pass
from dmc.passes.shared.motion import Distances, Moves, Order, sunk
from dmc.passes.shared.report import named, print_table
from dmc.passes.shared.starts import check_started
from dmc.step_function import find_step

HEAD = ("movement", "down by ops", "bytes of kernels", "stopped by")


@dataclass(frozen=True)
class SinkWait(Pass):
    """Moves each wait down to just before the first reader of its result, so that what is in between overlaps.

    `%y = wait(%h); %b = g(..); f(%y)` becomes `%b = g(..); %y = wait(%h); f(%y)`. Where only the return of the step
    reads it, or nothing does, as with new state and sends, the wait goes to the end. Views and unpacked members move
    along. A movement's operand and result are live until the wait: dm-schedule decides what that may cost. reasons:
    print how far each wait moved and what stopped it, on stderr. Linear in the number of operations and uses, except
    for sorting.
    """

    name = "dm-sink-wait"
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        """Raises DmcError for a movement that is not started."""
        block = find_step(module).entry_block
        check_started(block)
        order = Order.of(block)
        moves = sunk(order)
        if self.reasons:
            print_table(HEAD, _rows(order, moves))
        order.place(moves.keys)


def _rows(order: Order, moves: Moves) -> list[tuple[object, ...]]:
    distances = Distances.of(order, moves.keys)
    rows: list[tuple[object, ...]] = []
    for i in sorted(moves.stopped):
        wait = order.ops[i].opview
        if isinstance(wait, dm.WaitOp) and not isinstance(wait.handle.owner, ir.Block):
            movement = dm.movement_of(wait.handle.owner.opview).operation
            rows.append((named(movement), *distances.between(i, moves.keys[i][0]), named(order.ops[moves.stopped[i]])))
    return rows
