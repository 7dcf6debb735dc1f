"""Rewriting a step so that values wait in host memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.tasks.graph import TaskGraph
from dmc.dialect.labels import Label, kernel_label_of, put_label
from dmc.passes.scheduled.offload.copies import Visit
from dmc.passes.scheduled.offload.trips import Trip, task_at
from dmc.passes.shared.second_copies import SecondCopies, base_of, erase_unread, views_in
from dmc.program import DEVICE, PINNED_HOST


def rewrite(graph: TaskGraph, visits: Sequence[Visit]) -> None:
    """Moves values to host memory, and back for their readers behind it.

    `%y = kernel @f(%x); …; kernel @g(%y)` becomes `%y = kernel @f(%x); %h = copy(%y, pinned_host); …; %z = copy(%h,
    device); kernel @g(%z)`, where each copy is a start and its wait.
    """
    if not visits:
        return
    views, rewriter = views_in(graph.step), _Rewriter(graph, visits)
    for place in range(len(graph.order)):
        rewriter.pass_by(place)
    erase_unread(views)


class _Rewriter:
    """leaving, gone, begins, returns: the trips with this event at a place. flights: by value, the last handle."""

    def __init__(self, graph: TaskGraph, visits: Sequence[Visit]) -> None:
        self.graph, self.instances = graph, _free_instances(graph)
        self.leaving, self.gone, self.begins, self.returns = (defaultdict[int, list[Trip]](list) for _ in range(4))
        for visit in sorted(visits, key=lambda visit: visit.trip.leaves):
            self.leaving[visit.trip.leaves + 1].append(visit.trip)
            self.gone[visit.gone].append(visit.trip)
        for visit in sorted(visits, key=lambda visit: visit.trip.returns):
            self.begins[visit.begins].append(visit.trip)
            self.returns[visit.trip.returns].append(visit.trip)
        self.flights: dict[ir.Value, ir.Value] = {}
        self.copies = SecondCopies()

    def pass_by(self, place: int) -> None:
        """Starts and waits for what is due before a place, and lets what is there read what has returned."""
        event, task = self.graph.order[place], task_at(self.graph, place)
        op = task.op if event >= 0 or task.wait is None else task.wait
        with ir.InsertionPoint(op):
            for trip in self.gone[place]:
                self.flights[trip.value] = self._awaited(trip)
            for trip in self.leaving[place]:
                self.flights[trip.value] = self._started(trip, trip.value, "copy_out")
            for trip in self.begins[place]:
                self.flights[trip.value] = self._started(trip, self.flights[trip.value], "copy_in")
            for trip in self.returns[place]:
                self.copies.new[trip.value] = self._awaited(trip)
        if event >= 0:
            for number, value in enumerate(list(op.operands)):
                if base_of(value) in self.copies.new:
                    op.operands[number] = self.copies.of(value, op)

    def _started(self, trip: Trip, value: ir.Value, queue: str) -> ir.Value:
        """The handle of a copy out of device memory, or into it."""
        maker = self.graph.tasks[trip.maker].op
        source, target = (DEVICE, PINNED_HOST) if queue == "copy_out" else (PINNED_HOST, DEVICE)

        def movement(argument: ir.Value) -> ir.OpView:
            copy = dm.copy(argument, source=source, target=target)
            put_label(copy.operation, Label(kernel_label_of(maker)))
            return copy

        with maker.location:
            start = dm.start(value, movement, payload=value.type, queue=queue, instance=next(self.instances))
        return start.handle

    def _awaited(self, trip: Trip) -> ir.Value:
        with self.graph.tasks[trip.maker].op.location:
            return dm.wait(self.flights[trip.value]).result


def _free_instances(graph: TaskGraph) -> Iterator[int]:
    """Numbers that no movement has."""
    ops = (view.operation for view in graph.step.entry_block.operations)
    taken = {op.attributes["instance"].value for op in ops if "instance" in op.attributes}
    return (number for number in count() if number not in taken)
