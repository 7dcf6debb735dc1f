"""`@step` of form scheduled as a graph of tasks: lanes, durations, dependences, storages.

Views, buckets and waits are not tasks: they take no time. Dependences go through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc._mlir import func, ir

COMPUTE = "compute"

# An event: task i begins (i), or is waited for (~i, below 0). Kernels are not waited for.
Order = Sequence[int]


@dataclass(frozen=True)
class Task:
    """A kernel, or a movement with its wait.

    lane: "compute", "copy_in", "copy_out", or the name of a channel. ns: its duration. bytes: moved. needs: tasks that
    must be done before it begins, movements waited for. after: movements that must have completed. reads, writes:
    storages; a movement holds both until its wait. scratch: additional bytes while it runs.
    """

    op: ir.Operation
    wait: ir.Operation | None
    lane: str
    ns: float
    bytes: int
    label: str
    needs: tuple[int, ...]
    after: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    scratch: int

    @property
    def is_movement(self) -> bool:
        """Whether it runs outside the compute lane, so that it is started and waited for."""
        return self.lane != COMPUTE


@dataclass(frozen=True)
class Followers:
    """For each task, those that need it and those that come after it, in the given order."""

    needing: list[list[int]]
    after: list[list[int]]

    def of(self, index: int) -> list[int]:
        """Both."""
        return self.needing[index] + self.after[index]


@dataclass(frozen=True)
class TaskGraph:
    """The tasks in the given order, and their device memory.

    order: as given. sizes: bytes by storage, 0 for those in place of an argument or on the host. kept: storages live
    until the end. resident: bytes of the arguments, which are always live.
    """

    step: func.FuncOp
    tasks: tuple[Task, ...]
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    kept: tuple[int, ...]
    resident: int

    def followers(self) -> Followers:
        """The successors of each task."""
        found = Followers([[] for _ in self.tasks], [[] for _ in self.tasks])
        for index, task in enumerate(self.tasks):
            for before in task.needs:
                found.needing[before].append(index)
            for before in task.after:
                found.after[before].append(index)
        return found

    def kernels(self) -> list[int]:
        """The tasks of the compute lane, in the given order."""
        return [event for event in self.order if event >= 0 and not self.tasks[event].is_movement]


def check_order(graph: TaskGraph, order: Order) -> None:
    """Asserts the invariant that `order` contains every event once, each task after its dependences."""
    begun: set[int] = set()
    done: set[int] = set()
    for event in order:
        index = event if event >= 0 else ~event
        task = graph.tasks[index]
        if event >= 0:
            assert index not in begun and done.issuperset(task.needs) and begun.issuperset(task.after), task.label
            begun.add(index)
        if event < 0 or not task.is_movement:
            assert index in begun and index not in done, task.label
            done.add(index)
    assert len(done) == len(graph.tasks) and len(order) == len(graph.order)
