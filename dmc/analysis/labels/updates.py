"""The optimizer updates of `@step`: the gradient of each parameter."""

from __future__ import annotations

from collections.abc import Iterator

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.walk import walk

_UPDATE = "optimizer_update_"
_KEEP = "optimizer_update_keep"  # The update of a buffer, which has no gradient.


def gradients(step: func.FuncOp) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Each parameter and its gradient, of the same type, as operands of the update composites."""
    for op in walk(step):
        if op.name == dm.CompositeOp.OPERATION_NAME and _is_update(ir.StringAttr(op.attributes["kind"]).value):
            yield op.operands[0], op.operands[1]


def _is_update(kind: str) -> bool:
    return kind.startswith(_UPDATE) and kind != _KEEP
