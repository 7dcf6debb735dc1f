"""The cheapest path from one placement to another."""

from __future__ import annotations

import heapq
from itertools import count

from dmc.errors import PlanError
from dmc.memo import kept
from dmc.placement.placement import Placement
from dmc.placement.steps import Step
from dmc.placement.transitions import Tensor, steps_from

# Bytes, steps, and the sum of their group sizes.
Cost = tuple[int, int, int]


# A program has few distinct changes of placement, each many times.
@kept(4096)
def cheapest_path(source: Placement, target: Placement, tensor: Tensor) -> tuple[Step, ...]:
    """The steps from `source` to `target` that move the fewest bytes over all ranks.

    Ties go to the fewest steps, then the smallest sum of group sizes, then the order of `steps_from`, so that the
    result is deterministic. Axes that do not change are not touched, although slicing over such an axis before a
    reduction and gathering after it may move fewer bytes: it takes three movements for one, and may use a slower link.
    Axes of size 1 are ignored. Dijkstra's algorithm over the placements of the changing axes: at most a few hundred for
    three axes. Raises PlanError if the shape is not divisible or if the value would become partial by a kind other than
    `sum`.
    """
    for placement in (source, target):
        placement.local_shape(tensor.mesh, tensor.shape)
    _check_becomes_sum(source, target)
    start, goal = (each.keeping(lambda axis: tensor.mesh.axis_size(axis) > 1) for each in (source, target))
    moving = _moving(start, goal)
    order = count()
    queue: list[tuple[Cost, int, Placement]] = [((0, 0, 0), next(order), start)]
    best: dict[Placement, Cost] = {start: (0, 0, 0)}
    arrival: dict[Placement, Step] = {}
    while (reached := heapq.heappop(queue))[2] != goal:
        cost, _, placement = reached
        if cost > best[placement]:
            continue
        for step in steps_from(placement, tensor, moving, goal):
            further = (cost[0] + step.bytes, cost[1] + 1, cost[2] + tensor.mesh.group_size(step.axes))
            if step.target not in best or further < best[step.target]:
                best[step.target], arrival[step.target] = further, step
                heapq.heappush(queue, (further, next(order), step.target))
    return _steps_to(goal, arrival, start)


def _steps_to(goal: Placement, arrival: dict[Placement, Step], start: Placement) -> tuple[Step, ...]:
    steps: list[Step] = []
    while goal != start:
        steps.append(arrival[goal])
        goal = steps[-1].source
    return tuple(reversed(steps))


def _moving(source: Placement, target: Placement) -> tuple[str, ...]:
    """The axes that change: those of each dimension after the common prefix, and differing partial axes."""
    staying = {axis for axis, kind in source.partial if target.kind(axis) == kind}
    for before, after in zip(source.dims, target.dims, strict=True):
        for old, new in zip(before, after, strict=False):
            if source.word(old) != target.word(new):
                break
            staying.add(old)
    return tuple(axis for axis in dict.fromkeys((*source.axes, *target.axes)) if axis not in staying)


def _check_becomes_sum(source: Placement, target: Placement) -> None:
    for axis, kind in target.partial:
        if kind != "sum" and source.kind(axis) != kind:
            fact = f"from {source} makes the value partial ({kind}) over '{axis}'"
            raise PlanError(str(target), fact, "a value can only become partial by sum")
