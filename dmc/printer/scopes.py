"""Names of values, and what is read without one: constants, and tensors that are only written."""

from __future__ import annotations

from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.printer.attributes import attribute_text

_MOST = 24
EMPTY = "empty"


@dataclass(frozen=True)
class Scope:
    """How operands are written. state: MLIR's numbering of the module. known: texts in place of names."""

    state: ir.AsmState
    known: dict[ir.Value, str] = field(default_factory=dict[ir.Value, str])

    def name(self, value: ir.Value) -> str:
        """The name that MLIR's printer gives to a value: `%0`, `%5#1`."""
        return value.get_name(self.state)

    def text(self, value: ir.Value) -> str:
        """What stands for an operand: its name, a short constant itself, or `empty`."""
        if value in self.known:
            return self.known[value]
        owner = value.owner
        replaced = None if isinstance(owner, ir.Block) else stands_for(owner)
        return self.name(value) if replaced is None else replaced


def stands_for(op: ir.Operation) -> str | None:
    """What is read instead of a constant, an empty tensor or a filled one; None for what has a line of its own."""
    op = op.operation
    match op.name:
        case "tensor.empty":
            return EMPTY
        case "arith.constant":
            text = attribute_text(op.attributes["value"])
            return text if len(text) <= _MOST else None
        case "linalg.fill":
            filling = op.operands[0].owner
            return None if isinstance(filling, ir.Block) else stands_for(filling)
        case _:
            return None
