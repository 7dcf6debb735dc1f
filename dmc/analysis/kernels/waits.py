"""Which movements kernels wait for."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from dmc import dialect as dm
from dmc.analysis.kernels.clusters import Clusters
from dmc.dialect.collectives import COLLECTIVES

_MOVEMENTS = frozenset(each.OPERATION_NAME for each in COLLECTIVES)


class Waits:
    """By cluster, the movements between ranks that it waits for, directly or through others: bits of an integer.

    names: of the clusters' operations. kernels: those that are formed. composites: kernels that already are. What is
    behind merged clusters may wait for more than is known here.
    """

    def __init__(self, clusters: Clusters, names: Sequence[str], kernels: Collection[int]) -> None:
        self._clusters = clusters
        self._movements = frozenset(node for node, name in enumerate(names) if name in _MOVEMENTS)
        self.composites = frozenset(node for node, name in enumerate(names) if name == dm.KernelOp.OPERATION_NAME)
        self._views = frozenset(range(len(names))) - self._movements - self.composites - frozenset(kernels)
        bit = {node: 1 << i for i, node in enumerate(sorted(self._movements))}
        self._of: dict[int, int] = {}
        for node in sorted(range(len(names)), key=clusters.order.__getitem__):
            self._of[node] = 0
            for each in clusters.before[node]:
                self._of[node] |= self._of[each] | bit.get(each, 0)

    def merge(self, kept: int, gone: int) -> None:
        """Notes that two clusters are one."""
        self._of[kept] |= self._of.pop(gone)

    def is_more(self, node: int, other: int) -> bool:
        """Whether a cluster waits for a movement that the other does not wait for."""
        return bool(self._of[node] & ~self._of[other])

    def ends(self, quick: Collection[int]) -> Mapping[int, int]:
        """By quick cluster, what is not quick and is first reached from it, through quick ones: bits of an integer."""
        reached: dict[int, int] = {}
        for node in sorted(quick, key=self._clusters.order.__getitem__, reverse=True):
            reached[node] = 0
            for each in self._clusters.after[node]:
                reached[node] |= reached[each] if each in reached else 1 << each
        return reached

    def when(self, node: int, ends: Mapping[int, int]) -> Hashable:
        """Two quick clusters may run as one, without a delay of movements or of what is not quick, if this is equal.

        Either no movement reads them, and what is behind them (`ends`) waits for both anyway; or they are ready at the
        same time.
        """
        before, after = self._clusters.before[node], self._clusters.after[node]
        if not (before | after) & self._movements:
            return None
        if not after & self._movements:
            return "read", ends[node]
        return "ready", self._of[node], frozenset(before - self._movements - self._views)
