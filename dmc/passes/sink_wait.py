"""dm-sink-wait."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.passes._placing import FREE, Distances, Key, Order
from dmc.passes._reasons import named, print_table
from dmc.passes.base import Pass
from dmc.step_function import find_step

HEAD = ("movement", "down by ops", "bytes of kernels", "stopped by")


@dataclass(frozen=True)
class SinkWait(Pass):
    """Moves each wait down to just before the first reader of what it gives, so that what stood between overlaps.

    `%y = wait(%h); %b = g(..); f(%y)` becomes `%b = g(..); %y = wait(%h); f(%y)`. Where only the return of the step
    reads it, or nothing, as with new state and with sends, the wait goes to the end. Views and unpacked members go
    along. What a movement takes and delivers is in memory until the wait: what that may cost is for dm-schedule to say.
    reasons: print how far each wait came and what stopped it, on stderr. Linear in the number of operations and uses,
    but for sorting them.
    """

    name = "dm-sink-wait"
    reasons: bool = False

    def run(self, module: ir.Module) -> None:
        order = Order.of(find_step(module).entry_block)
        sinking = _sinking(order)
        keys: list[Key] = [(i, 0) for i in range(len(order.ops))]
        stopped: dict[int, int] = {}
        before: Counter[int] = Counter()
        for i in reversed(range(len(order.ops))):
            if sinking[i]:
                readers = order.readers(order.ops[i]) or [len(order.ops) - 1]
                stopped[i] = min(readers, key=keys.__getitem__)
                place = keys[stopped[i]][0]
                before[place] -= 1
                keys[i] = (place, before[place])
        if self.reasons:
            print_table(HEAD, _rows(order, keys, stopped))
        order.place(keys)


def _sinking(order: Order) -> list[bool]:
    """Which operations are waits, or cost nothing and read what one gives."""
    sinking: list[bool] = []
    for op in order.ops:
        is_fed = op.name in FREE and any(sinking[maker] for maker in order.makers(op))
        sinking.append(is_fed or isinstance(op.opview, dm.WaitOp))
    return sinking


def _rows(order: Order, keys: list[Key], stopped: dict[int, int]) -> list[tuple[object, ...]]:
    distances = Distances.of(order, keys)
    rows: list[tuple[object, ...]] = []
    for i in sorted(stopped):
        wait = order.ops[i].opview
        if isinstance(wait, dm.WaitOp) and not isinstance(wait.handle.owner, ir.Block):
            movement = dm.movement_of(wait.handle.owner.opview).operation
            rows.append((named(movement), *distances.between(i, keys[i][0]), named(order.ops[stopped[i]])))
    return rows
