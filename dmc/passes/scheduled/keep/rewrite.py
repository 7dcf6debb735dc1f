"""Rewriting a step so that kernels run again."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.analysis.storage.pieces import is_view
from dmc.dialect.labels import kernel_label_of, put_kernel_label
from dmc.passes.scheduled.keep.step import Again, Step
from dmc.program.labels import RECOMPUTED


def rewrite(step: Step, again: Again) -> None:
    """Runs kernels again, each right before the first task that reads a second result.

    `%y = kernel @f(%x); …; kernel @g(%y)` becomes `%y = kernel @f(%x); …; %z = kernel @f(%x); kernel @g(%z)`: the
    same code on the same operands gives the same bits.
    """
    if not again:
        return
    block = step.graph.step.entry_block
    views = [view.operation for view in block.operations if is_view(view.operation)]
    rewriter = _Rewriter(step, again)
    for place, event in enumerate(step.graph.order):
        if event >= 0:
            rewriter.read(event, place)
    for op in reversed(views):
        if not any(list(result.uses) for result in op.results):
            op.erase()


class _Rewriter:
    """storages: of the values that are computed again. new: by value, its second copy, or the view of one."""

    def __init__(self, step: Step, again: Again) -> None:
        self.step, self.again = step, again
        self.storages: dict[ir.Value, int] = {}
        for index in again:
            task = step.graph.tasks[index]
            self.storages.update(zip(task.op.results, task.writes, strict=True))
        self.new: dict[ir.Value, ir.Value] = {}
        self.done: set[int] = set()

    def read(self, index: int, place: int) -> None:
        """Lets a task read second copies, which are computed right before it where they have not been yet."""
        task = self.step.graph.tasks[index]
        for maker in self.step.needed_again(self.again, task.reads, place, self.done):
            self.done.add(maker)
            own = self.step.graph.tasks[maker].op
            copy = own.clone(ip=ir.InsertionPoint(task.op))
            put_kernel_label(copy, kernel_label_of(own) + RECOMPUTED)
            self._replace(copy, place)
            self.new.update(zip(own.results, copy.results, strict=True))
        self._replace(task.op, place)

    def _replace(self, op: ir.Operation, place: int) -> None:
        for number, value in enumerate(list(op.operands)):
            storage = self.storages.get(_base(value))
            if storage is not None and self.step.is_second(self.again, storage, place):
                op.operands[number] = self._second(value, op)

    def _second(self, value: ir.Value, before: ir.Operation) -> ir.Value:
        """The second copy of a value; of a view, a view of the second copy."""
        if value not in self.new:
            view = value.owner.operation
            source = self._second(view.operands[0], before)
            copy = view.clone(ip=ir.InsertionPoint(before))
            copy.operands[0] = source
            self.new[value] = copy.results[0]
        return self.new[value]


def _base(value: ir.Value) -> ir.Value:
    """The value that this one is a view of."""
    while not isinstance(value.owner, ir.Block) and is_view(value.owner.operation):
        value = value.owner.operation.operands[0]
    return value
