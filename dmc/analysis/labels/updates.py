"""The optimizer updates of `@step`: the gradient of each parameter."""

from __future__ import annotations

from collections.abc import Iterator

from dmc._mlir import func, ir
from dmc.dialect.kinds import traits_of
from dmc.walk import walk


def gradients(step: func.FuncOp) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Each parameter and its gradient, of the same type, as operands of the update composites."""
    for op in walk(step):
        if (traits := traits_of(op)).is_update and not traits.is_of_buffer:
            yield op.operands[0], op.operands[1]
