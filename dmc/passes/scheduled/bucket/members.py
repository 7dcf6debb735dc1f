"""The movements that may share a bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.labels import TENSOR, WHY
from dmc.dialect.plan import type_bytes
from dmc.passes.scheduled.bucket.layouts import LAYOUTS
from dmc.passes.shared.motion import Order
from dmc.passes.shared.starts import IN_TIME, wait_of


@dataclass(frozen=True)
class Member:
    """A movement that may share a bucket with others of the same `key`.

    place, ready, reader: indices of its start, of the last producer of its operand (-1: none), and of its wait, which
    precedes the first reader. bytes: of the larger of operand and result.
    """

    key: tuple[str, ...]
    start: Any
    wait: Any
    movement: Any
    place: int
    ready: int
    reader: int
    bytes: int

    @property
    def element(self) -> ir.Type:
        """The element type."""
        return self.movement.input.type.element_type


def members_of(order: Order) -> Iterator[Member]:
    """The collectives of a block that may share a movement with equal ones, in the order of their starts.

    Excludes those ordered by a token, or split along a dimension other than the first, and those that are in time:
    alike are only gathers of one weight, for micro-batches one behind the other.
    """
    for place, op in enumerate(order.ops):
        if not isinstance(start := op.opview, dm.StartOp) or len(op.operands) != 1:
            continue
        movement: Any = dm.movement_of(start)
        name, attributes = movement.operation.name, movement.operation.attributes
        is_first = "dim" not in attributes or movement.dim.value == 0
        is_bound = IN_TIME in attributes or next(iter(start.token.uses), None) is not None
        if name not in LAYOUTS or not is_first or is_bound:
            continue
        wait = wait_of(start)
        sizes = [type_bytes(value.type) for value in (movement.input, movement.result)]
        ready = max(order.makers(op), default=-1)
        reader = order.index[wait.operation]
        yield Member(_key(start, movement), start, wait, movement, place, ready, reader, max(sizes))


def _key(start: dm.StartOp, movement: Any) -> tuple[str, ...]:
    """What movements must have in common to be merged."""
    attributes = movement.operation.attributes
    says = [f"{name} {attributes[name]}" for name in attributes if name not in (TENSOR, WHY)]
    return (movement.operation.name, start.queue.value, str(movement.input.type.element_type), *says)
