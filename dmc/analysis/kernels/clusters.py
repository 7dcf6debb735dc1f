"""Merging nodes of an acyclic graph so that it stays acyclic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Nodes that a merge may visit: beyond that it is refused, so that many merges take linear time.
BUDGET = 4_000


class Clusters:
    """An acyclic graph whose nodes 0 … n-1, numbered in a topological order, are merged into clusters.

    A topological order of the clusters is maintained as edges are contracted, by the method of Pearce and Kelly, "A
    dynamic topological sort algorithm for directed acyclic graphs" (2007): a merge only visits what is between the two,
    and at most `budget` nodes.
    """

    def __init__(self, after: Sequence[Iterable[int]]) -> None:
        self.after: list[set[int]] = [set(each) for each in after]
        self.before: list[set[int]] = [set() for _ in after]
        self.order = list(range(len(after)))
        self._parent = list(range(len(after)))
        for node, later in enumerate(self.after):
            for each in later:
                self.before[each].add(node)
        self.budget = BUDGET
        self._path = _longest_path(self.after)
        # By cluster, as places in it: the last node that leads to the cluster, and the first to which that leads.
        self._behind, self._ahead = self._along_path()

    def find(self, node: int) -> int:
        """The cluster of a node, identified by one of its nodes."""
        while self._parent[node] != node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def merge(self, one: int, other: int) -> tuple[int, int] | None:
        """Merges two clusters; returns the merged one's number and the other, which ceases to exist.

        None, without changes, if another path leads from one to the other, or if the search takes too long.
        """
        first, last = sorted((one, other), key=self.order.__getitem__)
        if self._is_around(first, last):
            return None
        low, high = self.order[first], self.order[last]
        earlier = self._reached(last, first, self.before, range(low + 1, high + 1))
        # With nothing before it in between, the last moves up to the first, and what is behind the first may stay.
        later = self._reached(first, last, self.after, range(low, high)) if earlier else []
        if later is None or earlier is None:
            return None
        kept, gone = (first, last) if self._degree(first) >= self._degree(last) else (last, first)
        if not earlier and not later:
            self.order[kept] = low
            self._contract(kept, gone)
            return kept, gone
        places = sorted([low, high, *(self.order[node] for node in (*earlier, *later))])
        for node, place in zip(earlier, places, strict=False):
            self.order[node] = place
        self.order[kept] = places[len(earlier)]
        for node, place in zip(later, places[len(earlier) + 2 :], strict=True):
            self.order[node] = place
        self._contract(kept, gone)
        return kept, gone

    def _is_around(self, first: int, last: int) -> bool:
        """Whether the path through the graph leads from one cluster through others to the other.

        Most of a step is along it, so this saves most searches that would find as much.
        """
        begin, end = self._ahead[first], self._behind[last]
        return begin <= end and not {self.find(self._path[begin]), self.find(self._path[end])} <= {first, last}

    def _along_path(self) -> tuple[list[int], list[int]]:
        count, place = len(self.after), {node: at for at, node in enumerate(self._path)}
        behind, ahead = [-1] * count, [len(self._path)] * count
        for node in range(count):
            behind[node] = max([place.get(node, -1), *(behind[each] for each in self.before[node])])
        for node in reversed(range(count)):
            ahead[node] = min([place.get(node, len(self._path)), *(ahead[each] for each in self.after[node])])
        return behind, ahead

    def _reached(self, start: int, end: int, edges: list[set[int]], within: range) -> list[int] | None:
        """The nodes reachable from `start` at places `within`, in order; None if an indirect path leads to `end`."""
        order, first, stop = self.order, within.start, within.stop
        found: set[int] = set()
        pending = [node for node in edges[start] if node != end and first <= order[node] < stop]
        if not pending:
            return []
        while pending:
            node = pending.pop()
            if node in found:
                continue
            found.add(node)
            if end in edges[node] or len(found) > self.budget:
                return None
            pending += [each for each in edges[node] if first <= order[each] < stop and each not in found]
        return sorted(found, key=self.order.__getitem__)

    def _degree(self, node: int) -> int:
        return len(self.after[node]) + len(self.before[node])

    def _contract(self, kept: int, gone: int) -> None:
        self._parent[gone] = kept
        self._behind[kept] = max(self._behind[kept], self._behind[gone])
        self._ahead[kept] = min(self._ahead[kept], self._ahead[gone])
        for there, back in ((self.after, self.before), (self.before, self.after)):
            for node in there[gone]:
                back[node].discard(gone)
                if node != kept:
                    back[node].add(kept)
                    there[kept].add(node)
            there[kept].discard(gone)
            there[gone] = set()


def _longest_path(after: Sequence[Iterable[int]]) -> list[int]:
    """The nodes of a path of the most nodes, in order; nodes are numbered in a topological order."""
    length, following = [1] * len(after), [-1] * len(after)
    for node in reversed(range(len(after))):
        for each in after[node]:
            if length[each] >= length[node]:
                length[node], following[node] = length[each] + 1, each
    path: list[int] = []
    node = max(range(len(after)), key=length.__getitem__, default=-1)
    while node >= 0:
        path.append(node)
        node = following[node]
    return path
