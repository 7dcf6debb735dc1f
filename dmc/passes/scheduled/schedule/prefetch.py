"""The order of fully sharded data parallelism without a compiler, for comparison.

Kernels run as given. Gathers for a layer run while the layer before it runs (FSDP's `forward_prefetch` and
`BACKWARD_PRE`; Zhao et al., "PyTorch FSDP", VLDB 2023); gradients are reduced when ready and waited for where they are
read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dmc.analysis.tasks.graph import Followers, TaskGraph
from dmc.passes.scheduled.schedule.bounds import Bounds, bounds_of

# A layer is a numbered part of a path: "h.3" of "all_gather #7 of h.3.mlp.0.weight".
_LAYER = re.compile(r"of (?P<layer>.*?\.\d+)(\.|$)")


def prefetch_layers(graph: TaskGraph, kernels: Sequence[int], followers: Followers) -> list[int]:
    """The order. Movements without a known layer belong to the layer before them. Near-linear."""
    bounds = bounds_of(graph, kernels, followers)
    moving = [index for index, task in enumerate(graph.tasks) if task.is_movement]
    by_need = sorted(moving, key=lambda each: (bounds.last[each], each))
    first = _starts(graph, by_need, bounds)
    starts: list[list[int]] = [[] for _ in range(len(kernels) + 1)]
    waits: list[list[int]] = [[] for _ in range(len(kernels) + 1)]
    for index in by_need:
        starts[first[index]].append(index)
        waits[bounds.last[index]].append(index)
    events = _Events(graph)
    for gap, (starting, waiting) in enumerate(zip(starts, waits, strict=True)):
        for index in starting:
            events.begin(index)
        for index in waiting:
            events.wait(index)
        events.found.update(dict.fromkeys(kernels[gap : gap + 1]))
    return list(events.found)


def _starts(graph: TaskGraph, by_need: Sequence[int], bounds: Bounds) -> list[int]:
    """The gap in which each movement starts: a gather not before the previous layer is first read."""
    first = list(bounds.first)
    previous, current, layer = 0, 0, ""
    for index in by_need:
        if bounds.is_eager[index]:
            continue
        own = _LAYER.search(graph.tasks[index].label)
        name = own["layer"] if own else layer
        if name != layer:
            previous, current, layer = current, bounds.last[index], name
        first[index] = max(first[index], previous)
    return first


class _Events:
    """found: the events, in order; a movement begins after its dependences."""

    def __init__(self, graph: TaskGraph) -> None:
        self.graph = graph
        self.found: dict[int, None] = {}

    def begin(self, index: int) -> None:
        """Starts a movement, unless already started."""
        if index in self.found:
            return
        task = self.graph.tasks[index]
        for before in task.after:
            self.begin(before)
        for before in task.needs:
            if self.graph.tasks[before].is_movement:
                self.wait(before)
        self.found[index] = None

    def wait(self, index: int) -> None:
        """Waits for a movement, unless already done."""
        self.begin(index)
        self.found[~index] = None
