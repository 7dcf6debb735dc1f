"""Rewriting a step so that kernels of its forward pass run again."""

from __future__ import annotations

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.storage.pieces import is_view
from dmc.analysis.tasks.graph import TaskGraph
from dmc.dialect.labels import kernel_label_of, put_kernel_label
from dmc.passes.scheduled.keep.forward import Forward
from dmc.program.labels import RECOMPUTED


def rewrite(graph: TaskGraph, forward: Forward, again: frozenset[int]) -> None:
    """Runs the kernels `again` again, each right before the first task of the backward pass that needs it.

    `%y = kernel @f(%x); …; kernel @g(%y)` becomes `%y = kernel @f(%x); …; %z = kernel @f(%x); kernel @g(%z)`: the
    same code on the same operands gives the same bits.
    """
    if not again:
        return
    own = {graph.tasks[index].op for index in forward.tasks}
    rewriter = _Rewriter({graph.tasks[index].op for index in again})
    *body, _ = [view.operation for view in graph.step.entry_block.operations]
    for op in body:
        if op not in own and not is_view(op):
            rewriter.read_again(op)
    for op in reversed(body):
        if is_view(op) and not any(list(result.uses) for result in op.results):
            op.erase()


class _Rewriter:
    """new: by value, the one that the backward pass reads in its stead."""

    def __init__(self, again: set[ir.Operation]) -> None:
        self.again = again
        self.new: dict[ir.Value, ir.Value] = {}

    def read_again(self, op: ir.Operation) -> None:
        """Replaces what an operation of the backward pass reads, and computes it right before where nothing has yet."""
        for index, value in enumerate(list(op.operands)):
            if self._is_changed(value):
                op.operands[index] = self._value(value, op)

    def _is_changed(self, value: ir.Value) -> bool:
        """Whether a value, or what it is a view of, is computed again."""
        op = _maker(value)
        while op is not None and is_view(op):
            op = _maker(op.operands[0])
        return op in self.again

    def _value(self, value: ir.Value, before: ir.Operation) -> ir.Value:
        """The new value for a changed one. Chains of kernels may be long, so what is missing waits on a stack."""
        pending = [value]
        while pending:
            op = _maker(pending[-1])
            assert op is not None, "an argument is not computed again"
            missing = [each for each in op.operands if self._is_changed(each) and each not in self.new]
            if pending[-1] in self.new:
                pending.pop()
            elif missing:
                pending += missing
            else:
                self._copy(op, before)
        return self.new[value]

    def _copy(self, op: ir.Operation, before: ir.Operation) -> None:
        copy = op.clone(ip=ir.InsertionPoint(before))
        for index, operand in enumerate(op.operands):
            copy.operands[index] = self.new.get(operand, operand)
        if isinstance(op.opview, dm.KernelOp):
            put_kernel_label(copy, kernel_label_of(op) + RECOMPUTED)
        self.new.update(zip(op.results, copy.results, strict=True))


def _maker(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation
