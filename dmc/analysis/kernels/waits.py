"""Which movements kernels wait for."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.clusters import Clusters
from dmc.analysis.kernels.graph import Graph
from dmc.dialect.collectives import COLLECTIVES
from dmc.dialect.plan import type_bytes

_MOVEMENTS = frozenset(each.OPERATION_NAME for each in COLLECTIVES)
# Bytes up to which a kernel may read gathered weights, such as those of norms, although others need not.
_SMALL = 1 << 16


class Waits:
    """By cluster, the movements between ranks that it waits for, directly or through others: bits of an integer.

    nodes: the numbers in `graph` of what the clusters began as. kernels: those that are formed. composites: kernels
    that already are. What is behind merged clusters may wait for more than is known here.
    """

    def __init__(self, clusters: Clusters, graph: Graph, nodes: Sequence[int], kernels: Collection[int]) -> None:
        ops = [graph.ops[number] for number in nodes]
        self._clusters = clusters
        self._movements = frozenset(node for node, op in enumerate(ops) if op.name in _MOVEMENTS)
        self.composites = frozenset(node for node, op in enumerate(ops) if op.name == dm.KernelOp.OPERATION_NAME)
        self._views = frozenset(range(len(ops))) - self._movements - self.composites - frozenset(kernels)
        late = [node for node in sorted(self._movements) if not _is_early(ops[node], graph)]
        bit = {node: 1 << i for i, node in enumerate(late)}
        self._of: dict[int, int] = {}
        for node in sorted(range(len(ops)), key=clusters.order.__getitem__):
            self._of[node] = 0
            for each in clusters.before[node]:
                self._of[node] |= self._of[each] | bit.get(each, 0)

    def merge(self, kept: int, gone: int) -> None:
        """Notes that two clusters are one."""
        self._of[kept] |= self._of.pop(gone)

    def of(self, node: int) -> int:
        """The movements for which a cluster waits."""
        return self._of[node]

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


def _is_early(op: ir.Operation, graph: Graph) -> bool:
    """Whether an operation gathers a small tensor that the step is given: it may start, and arrives, first."""
    if op.name != dm.AllGatherOp.OPERATION_NAME or type_bytes(op.results[0].type) > _SMALL:
        return False
    return graph.kind_of(graph.base(op.operands[0])) is None
