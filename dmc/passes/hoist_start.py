"""dm-hoist-start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes._placing import FREE, Distances, Key, Order
from dmc.passes._reasons import named, print_table
from dmc.passes._starts import Lane, lane_of
from dmc.passes.base import Pass
from dmc.step_function import find_step

HEAD = ("movement", "queue", "up by ops", "bytes of kernels", "stopped by")


@dataclass(frozen=True)
class HoistStart(Pass):
    """Moves each start up to just behind what makes its operand, so that it overlaps with what stood before it.

    `%a = f(..); %b = g(..); start(%a)` becomes `%a = f(..); start(%a); %b = g(..)`. No start passes a token that it
    waits for, nor another start of its lane (a queue and, where it has one, a channel), because lanes are in order.
    Views and packs that only stand between go along. A value that is made early is in memory for longer: what that may
    cost is for dm-schedule to say. reasons: print how far each start came and what stopped it, on stderr. Linear in the
    number of operations, but for sorting them.
    """

    name = "dm-hoist-start"
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        order = Order.of(find_step(module).entry_block)
        hoisting = _Hoisting(order)
        for i in range(len(order.ops)):
            hoisting.visit(i)
        if self.reasons:
            print_table(HEAD, hoisting.rows())
        order.place(hoisting.keys)


class _Hoisting:
    """Gives the operations of a block their keys, in order."""

    def __init__(self, order: Order) -> None:
        self.keys: list[Key] = []
        self._order = order
        self._feeding = _feeding(order)
        self._behind: Counter[int] = Counter()
        self._last: dict[Lane, int] = {}
        self._stopped: dict[int, int | None] = {}

    def visit(self, i: int) -> None:
        """Takes operation `i`, the next."""
        if not self._feeding[i]:
            self.keys.append((i, 0))
            return
        op = self._order.ops[i]
        anchors = self._order.makers(op)
        if isinstance(op.opview, dm.StartOp):
            lane = lane_of(op.opview)
            anchors += [self._last[lane]] if lane in self._last else []
            self._last[lane] = i
        stopper = max(anchors, key=self.keys.__getitem__, default=None)
        place = -1 if stopper is None else self.keys[stopper][0]
        self._behind[place] += 1
        self.keys.append((place, self._behind[place]))
        self._stopped[i] = stopper

    def rows(self) -> list[tuple[object, ...]]:
        """How far each start came, and what stopped it."""
        distances, ops = Distances.of(self._order, self.keys), self._order.ops
        rows: list[tuple[object, ...]] = []
        for i, stopper in self._stopped.items():
            if isinstance(start := ops[i].opview, dm.StartOp):
                passed = distances.between(self.keys[i][0], i)
                why = "start of the step" if stopper is None else named(ops[stopper])
                rows.append(
                    (named(dm.movement_of(start).operation), "@".join(filter(None, lane_of(start))), *passed, why)
                )
        return rows


def _feeding(order: Order) -> list[bool]:
    """Which operations are starts, or cost nothing and feed one."""
    feeding = [isinstance(op.opview, dm.StartOp) for op in order.ops]
    for i in reversed(range(len(order.ops))):
        if feeding[i]:
            for maker in order.makers(order.ops[i]):
                feeding[maker] = feeding[maker] or order.ops[maker].name in FREE
    return feeding
