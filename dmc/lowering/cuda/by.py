"""What the plan wants the body of a kernel computed by, as an attribute of it."""

from __future__ import annotations

from dmc._mlir import func, ir

# On a private function: one of `dmc.plans.verbs.IMPLEMENTATIONS`.
BY = "dm.by"


def asked_of(function: func.FuncOp) -> str:
    """What the plan asks for; "" for whatever is best."""
    attributes = function.operation.attributes
    return ir.StringAttr(attributes[BY]).value if BY in attributes else ""
