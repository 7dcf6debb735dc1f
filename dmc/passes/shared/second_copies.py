"""Second copies of values, for some of their readers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dmc._mlir import func, ir
from dmc.analysis.storage.pieces import is_view


@dataclass
class SecondCopies:
    """new: by value, its second copy, or the view of one."""

    new: dict[ir.Value, ir.Value] = field(default_factory=dict[ir.Value, ir.Value])

    def of(self, value: ir.Value, before: ir.Operation) -> ir.Value:
        """The second copy of a value; of a view, a view of the second copy, made before an operation that reads it."""
        if value not in self.new:
            view = value.owner.operation
            source = self.of(view.operands[0], before)
            copy = view.clone(ip=ir.InsertionPoint(before))
            copy.operands[0] = source
            self.new[value] = copy.results[0]
        return self.new[value]


def base_of(value: ir.Value) -> ir.Value:
    """The value that this one is a view of."""
    while not isinstance(value.owner, ir.Block) and is_view(value.owner.operation):
        value = value.owner.operation.operands[0]
    return value


def views_in(step: func.FuncOp) -> list[ir.Operation]:
    """The views in a step, in order."""
    return [view.operation for view in step.entry_block.operations if is_view(view.operation)]


def erase_unread(views: Iterable[ir.Operation]) -> None:
    """Erases those of `views`, in order, that nothing reads any more."""
    for op in reversed(list(views)):
        if not any(list(result.uses) for result in op.results):
            op.erase()
