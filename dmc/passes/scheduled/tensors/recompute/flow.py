"""A minimum cut of a small network: Edmonds and Karp (1972)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

# No cut contains an edge of this capacity.
ENDLESS = 1 << 62

Edge = tuple[int, int, int]


def sink_side(edges: Iterable[Edge], source: int, sink: int) -> frozenset[int]:
    """The nodes on the sink's side of a minimum cut; of several, of the one nearest to the sink.

    edges: from, to, capacity. There must be a cut of finite capacity.
    """
    rest: dict[int, dict[int, int]] = {source: {}, sink: {}}
    for first, second, capacity in edges:
        out, back = rest.setdefault(first, {}), rest.setdefault(second, {})
        out[second] = out.get(second, 0) + capacity
        back.setdefault(first, 0)
    while sink in (before := _before(rest, source)):
        path = [sink]
        while path[-1] != source:
            path.append(before[path[-1]])
        hops = list(zip(path[1:], path, strict=False))
        flow = min(rest[first][second] for first, second in hops)
        assert flow < ENDLESS // 2, "no finite cut"
        for first, second in hops:
            rest[first][second] -= flow
            rest[second][first] += flow
    turned: dict[int, dict[int, int]] = {node: {} for node in rest}
    for first, out in rest.items():
        for second, capacity in out.items():
            turned[second][first] = capacity
    return frozenset(_before(turned, sink))


def _before(rest: Mapping[int, Mapping[int, int]], start: int) -> dict[int, int]:
    """The nodes that edges with capacity left reach from `start`, each with the one before it on a shortest path."""
    before = {start: start}
    pending = deque([start])
    while pending:
        node = pending.popleft()
        for other, capacity in rest[node].items():
            if capacity and other not in before:
                before[other] = node
                pending.append(other)
    return before
