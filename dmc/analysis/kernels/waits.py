"""Which movements kernels wait for."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from dmc.analysis.kernels.clusters import Clusters


class Waits:
    """By cluster, the movements between ranks that it waits for, directly or through others: bits of an integer.

    Kept up to date as clusters are merged, but for what is behind them: a merge may make that wait for more.
    """

    def __init__(self, clusters: Clusters, movements: Collection[int]) -> None:
        self._clusters, self._movements = clusters, frozenset(movements)
        bit = {node: 1 << i for i, node in enumerate(sorted(movements))}
        self._of: dict[int, int] = {}
        for node in sorted(range(len(clusters.order)), key=clusters.order.__getitem__):
            self._of[node] = 0
            for each in clusters.before[node]:
                self._of[node] |= self._of[each] | bit.get(each, 0)

    def merge(self, kept: int, gone: int) -> None:
        """Notes that two clusters are one."""
        self._of[kept] |= self._of.pop(gone)

    def is_more(self, node: int, other: int) -> bool:
        """Whether a cluster waits for a movement that the other does not wait for."""
        return bool(self._of[node] & ~self._of[other])

    def when(self, node: int) -> Hashable:
        """Two clusters may run as one, without a delay of other kernels or of movements, if this is equal.

        Either no movement reads them, and they have the same readers, which wait for both anyway; or they are ready at
        the same time.
        """
        before, after = self._clusters.before[node], self._clusters.after[node]
        if not before & self._movements and not after & self._movements:
            return None
        if not after & self._movements:
            return "read", frozenset(after)
        # What needs nothing, such as a rank's part of an argument, is ready at once.
        needed = (each for each in before - self._movements if self._clusters.before[each])
        return "ready", self._of[node], frozenset(needed)
