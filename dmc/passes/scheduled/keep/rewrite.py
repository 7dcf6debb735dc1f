"""Rewriting a step so that kernels run again."""

from __future__ import annotations

from dmc._mlir import func, ir
from dmc.dialect.labels import in_action_of, kernel_label_of, put_kernel_label
from dmc.passes.scheduled.keep.step import Again, Step
from dmc.passes.shared.second_copies import SecondCopies, base_of, erase_unread, views_in
from dmc.passes.shared.starts import starts_of_returns, wait_of
from dmc.program.labels import RECOMPUTED


def rewrite(step: Step, again: Again) -> None:
    """Runs kernels again, each right before the first task that reads a second result.

    `%y = kernel @f(%x); …; kernel @g(%y)` becomes `%y = kernel @f(%x); …; %z = kernel @f(%x); kernel @g(%z)`: the
    same code on the same operands gives the same bits.
    """
    if not again:
        return
    views = views_in(step.graph.step)
    rewriter = _Rewriter(step, again)
    for place, event in enumerate(step.graph.order):
        if event >= 0:
            rewriter.read(event, place)
    erase_unread(views)


class _Rewriter:
    """storages: of the values that are computed again. copies: their second ones. returned: by offloaded value, its
    copy that has been moved back."""

    def __init__(self, step: Step, again: Again) -> None:
        self.step, self.again = step, again
        self.storages: dict[ir.Value, int] = {}
        for index in again:
            task = step.graph.tasks[index]
            self.storages.update(zip(task.op.results, task.writes, strict=True))
        self.copies = SecondCopies()
        self.done: set[int] = set()
        self.returned = SecondCopies(_returned(step.graph.step))

    def read(self, index: int, place: int) -> None:
        """Lets a task read second copies, which are computed right before it where they have not been yet."""
        task = self.step.graph.tasks[index]
        for maker in self.step.needed_again(self.again, task.reads, place, self.done):
            self.done.add(maker)
            own = self.step.graph.tasks[maker].op
            copy = own.clone(ip=ir.InsertionPoint(task.op))
            put_kernel_label(copy, kernel_label_of(own) + RECOMPUTED)
            copy.location = in_action_of(own.location, task.op)
            self._replace(copy, place)
            self._read_returned(copy)
            self.copies.new.update(zip(own.results, copy.results, strict=True))
        self._replace(task.op, place)

    def _replace(self, op: ir.Operation, place: int) -> None:
        for number, value in enumerate(list(op.operands)):
            storage = self.storages.get(base_of(value))
            if storage is not None and self.step.is_second(self.again, storage, place):
                op.operands[number] = self.copies.of(value, op)

    def _read_returned(self, copy: ir.Operation) -> None:
        """Lets a kernel that runs again read what has been moved back, at the latest right before.

        What has not left yet is still where it was.
        """
        for number, value in enumerate(list(copy.operands)):
            back = self.returned.new.get(base_of(value))
            if back is None:
                continue
            wait = back.owner.operation
            start = wait.operands[0].owner.operation
            if copy.is_before_in_block(start.operands[0].owner.operation):
                continue
            for op in (start, wait):
                if copy.is_before_in_block(op):
                    op.move_before(copy)
            copy.operands[number] = self.returned.of(value, copy)


def _returned(step: func.FuncOp) -> dict[ir.Value, ir.Value]:
    """By offloaded value, its copy that is moved back."""
    found: dict[ir.Value, ir.Value] = {}
    for start in starts_of_returns(step.entry_block):
        sent = start.operation.operands[0].owner.opview.handle.owner.opview
        found[sent.input] = wait_of(start).result
    return found
