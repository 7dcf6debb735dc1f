"""The kernels of the forward pass, and those of them that may run again in the backward pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.storage.pieces import is_view
from dmc.analysis.tasks.graph import TaskGraph
from dmc.step_function import FINITE, outputs


@dataclass(frozen=True)
class Forward:
    """tasks: those on which the loss and the other outputs depend.

    makers: by storage, the kernel that computes it and may run again: all of its results are values that only kernels
    and movements read. read: the storages that tasks of the backward pass read.
    """

    tasks: frozenset[int]
    makers: Mapping[int, int]
    read: frozenset[int]

    def kept_by(self, graph: TaskGraph, task: int) -> tuple[int, ...]:
        """The results of a kernel that the backward pass reads."""
        return tuple(each for each in graph.tasks[task].writes if each in self.read)


def forward_of(graph: TaskGraph) -> Forward:
    """Reads the step of a task graph. Linear."""
    ops = _needed(graph.step)
    tasks = frozenset(index for index, task in enumerate(graph.tasks) if task.op in ops)
    later = (task for index, task in enumerate(graph.tasks) if index not in tasks)
    read = frozenset(storage for task in later for storage in task.reads)
    writers = Counter(storage for task in graph.tasks for storage in task.writes)
    makers: dict[int, int] = {}
    for index in sorted(tasks):
        task = graph.tasks[index]
        is_free = all(
            graph.sizes[each] and writers[each] == 1 and each not in graph.kept and each not in task.reads
            for each in task.writes
        )
        if not task.is_movement and is_free and not _is_packed(task.op.results):
            makers.update(dict.fromkeys(task.writes, index))
    return Forward(tasks, makers, read)


def _needed(step: func.FuncOp) -> set[ir.Operation]:
    """The operations on which outputs depend. Whether all is finite is known after the backward pass only."""
    *_, terminator = step.entry_block.operations
    pending = [terminator.operands[port.index] for port in outputs(step) if port.name != FINITE]
    found: set[ir.Operation] = set()
    while pending:
        owner = pending.pop().owner
        if not isinstance(owner, ir.Block) and owner.operation not in found:
            found.add(owner.operation)
            pending += owner.operands
    return found


def _is_packed(values: Iterable[ir.Value]) -> bool:
    """Whether a bucket contains one of the values, which then belongs where the bucket is."""
    for use in (use for value in values for use in value.uses):
        user = use.owner.operation
        if isinstance(user.opview, dm.PackOp | dm.UnpackOp) or (is_view(user) and _is_packed(user.results)):
            return True
    return False
