"""Operations that nobody reads."""

from __future__ import annotations

from dmc._mlir import ir


def erase_unread(block: ir.Block) -> None:
    """Erases computation on tensors whose results nobody reads."""
    for op in reversed([view.operation for view in block.operations]):
        is_pure = op.name.startswith(("linalg.", "tensor.", "arith."))
        if is_pure and not any(list(result.uses) for result in op.results):
            op.erase()
