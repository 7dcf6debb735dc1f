"""Which computations are fused into one kernel: greedily, by bytes of device memory traffic saved."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from dmc import dialect as dm
from dmc.analysis.kernels.clusters import Clusters
from dmc.analysis.kernels.fusion.epilogues import WIDER, wide_epilogues
from dmc.analysis.kernels.fusion.rules import Rules
from dmc.analysis.kernels.graph import Graph, Kind
from dmc.analysis.kernels.groups import Group, Refusal
from dmc.analysis.kernels.reads import ORDER, memory_reads, sources
from dmc.analysis.kernels.shapes import Loops, loops_of
from dmc.analysis.kernels.waits import Waits
from dmc.dialect.labels import action_of

# Operands and results of a kernel: IREE's runtime binds 32 buffers in a dispatch, a quarter of them for itself.
MOST_VALUES = 24
# The same, where several small kernels that are independent of each other share a launch.
MOST_JOINED = 64
# A value that more kernels read than this brings none of them together.
MOST_READERS = 8


# Kernels of a pipeline stay within an action, so that the schedule says when they run.
ACTION = "of another action of the pipeline"
# Those of modules that the plan keeps apart, from others.
APART = "of another module, which the plan keeps apart"
# For each operation of a graph what its kernels have in common; empty where all may be fused.
Homes = Sequence[Hashable]


@dataclass(frozen=True)
class Fusion:
    """groups: the numbers of the operations of each kernel, ascending. refusals: returns them, the largest first."""

    groups: tuple[tuple[int, ...], ...]
    refusals: Callable[[], list[Refusal]]


def fuse(
    graph: Graph, most_values: int = MOST_VALUES, most_joined: int = 0, own: bool = False, homes: Homes = ()
) -> Fusion:
    """Groups every operation that computes with others, by the bytes that are neither written nor read any more.

    A kernel has at most `most_values` operands and results, unless one operation has more. Small kernels that have
    nothing in common are joined up to `most_joined`. own: whether dmc's own code computes the kernels: it fuses
    concatenations with what they read, and a product with a wide epilogue only where nothing else can compute that.
    homes: for each operation a value, if any; those with different ones are not fused.
    Linear in operations but for a heap, if values have few readers.
    """
    merging = merged(graph, most_values, own, homes)
    merging.join(most_joined)
    return merging.fusion()


def merged(graph: Graph, most_values: int, own: bool, homes: Homes = ()) -> Merging:
    """The kernels, before small ones are joined."""
    merging = Merging(graph, most_values, own, homes=homes)
    merging.run()
    wide = set(wide_epilogues(merging, merging.kernels_reading)) if own else set[tuple[int, int]]()
    if not wide:
        return merging
    again = Merging(graph, most_values, own, wide, homes)
    again.run()
    return min(merging, again, key=Merging.bytes)


class Merging(Rules):
    """Kernels, one for each operation that computes at first, as they are merged. wide: see `wide_epilogues`; homes:
    see `fuse`."""

    def __init__(
        self, graph: Graph, most_values: int, own: bool, wide: Collection[tuple[int, int]] = (), homes: Homes = ()
    ) -> None:
        nodes = [i for i, kind in enumerate(graph.kinds) if kind in (Kind.COMPUTE, Kind.MOVEMENT)]
        super().__init__(graph, nodes, most_values, own)
        self.node_of = {number: node for node, number in enumerate(nodes)}
        self.readers: dict[int, set[int]] = {}
        # What keeps two clusters apart; nodes that read a value in another order than it is written.
        self.apart = {(self.node_of[maker], self.node_of[reader]): WIDER for maker, reader in wide}
        self.turned: dict[int, list[int]] = {}
        self.actions = _actions(graph, nodes)
        self.homes = [homes[number] if homes else None for number in nodes]
        after: list[set[int]] = [set() for _ in self.nodes]
        for node, number in enumerate(self.nodes):
            self._add(node, number, after)
        for group in self.groups.values():
            group.writes = {value for value in group.writes if value in self.held or self.readers.get(value)}
        self.clusters = Clusters(after)
        self.waits = Waits(self.clusters, graph, self.nodes, self.groups)

    def _add(self, node: int, number: int, after: list[set[int]]) -> None:
        is_kernel, numbered = self.graph.kinds[number] is Kind.COMPUTE, self.values.number
        writes = {numbered(value) for value in self.graph.ops[number].results}
        reads: set[int] = set()
        loops = self.graph.fact(loops_of, number, self.own) if is_kernel else None
        is_product = loops is not None and loops.product
        for base, part, why in memory_reads(self.graph, number):
            value = numbered(base)
            reads.add(numbered(part))
            for each in (value, numbered(part)):
                self.readers.setdefault(each, set()).add(node)
            self.turning.update(writes if why == ORDER else ())
            if (maker := self.node_of.get(self.graph.made_by.get(base, -1))) is None:
                continue
            after[maker].add(node)
            if is_product:
                self.apart[maker, node] = "read by a product"
            elif why == ORDER:
                self.turned.setdefault(value, []).append(node)
            elif why:
                self.apart[maker, node] = why
        # Behind a barrier it may wait for what it does not read.
        for maker in {self.node_of[each] for each in sources(self.graph, number)}:
            if node not in after[maker]:
                after[maker].add(node)
                self.apart[maker, node] = "waits"
        if is_kernel:
            in_loops = set[int]() if is_product else set(reads)
            self.groups[node] = Group([number], loops, reads, writes, in_loops, self.values.elements)

    def bytes(self) -> int:
        """Those that the kernels read and write."""
        sizes = self.values.bytes
        return sum(sizes[value] for group in self.groups.values() for value in (*group.reads, *group.writes))

    def run(self) -> None:
        # Both kernels of a pair enter it.
        waiting = {entry for node in self.groups for entry in self._entries(node)}
        heap = sorted(waiting)
        while heap:
            entry = heapq.heappop(heap)
            waiting.discard(entry)
            first, second = map(self.clusters.find, entry[1:])
            if first == second:
                continue
            first, second = self._in_order(first, second)
            saved = self.saved(first, second, ranked=self.own)
            added: Iterable[tuple[int, int, int]] = ()
            if saved < -entry[0]:
                added = ((-saved, first, second),)
            elif not self.why_not(first, second) and (merged := self.merge(first, second)) is not None:
                added = self._entries(merged)
            for each in added:
                if each not in waiting:
                    waiting.add(each)
                    heapq.heappush(heap, each)

    def _entries(self, node: int) -> Iterator[tuple[int, int, int]]:
        """The pairs of a kernel with its readers, its producers, and those that read the same."""
        near = self.clusters.before[node] | self.clusters.after[node]
        for value in self.groups[node].reads:
            readers = self.readers[value]
            if len(readers) <= MOST_READERS:
                near |= readers
        near.discard(node)
        for other in near & self.groups.keys():
            first, second = pair = self._in_order(node, other)
            if pair not in self.apart and (saved := self.saved(first, second, ranked=self.own)):
                yield -saved, first, second

    def _in_order(self, one: int, other: int) -> tuple[int, int]:
        order = self.clusters.order
        return (one, other) if order[one] < order[other] else (other, one)

    def kept_apart(self, first: int, second: int) -> str:
        if self.homes[first] != self.homes[second]:
            return APART
        one, other = self.actions[first], self.actions[second]
        return self.apart.get((first, second), "" if one == other or not (one and other) else ACTION)

    def is_next(self, first: int, second: int) -> bool:
        return second in self.clusters.after[first]

    def is_wanted(self, value: int, first: int, second: int) -> bool:
        return value in self.held or not self.readers[value] <= {first, second}

    def is_turned(self, value: int, reader: int) -> bool:
        return any(self.clusters.find(node) == reader for node in self.turned.get(value, ()))

    def delays(self, early: int, late: int) -> bool:
        if not self.waits.is_more(late, early):
            return False
        nodes = {each for value in self.groups[early].writes for each in self.readers.get(value, ())}
        readers = set(map(self.clusters.find, nodes))
        return any(self.waits.is_more(late, each) for each in readers - {early, late})

    def kernels_reading(self, value: int) -> set[int]:
        """The kernels that read a value, and movements."""
        return {self.clusters.find(node) for node in self.readers.get(value, ())}

    def is_summed_over_columns(self, epilogue: int) -> bool:
        writes = self.groups[epilogue].writes
        readers = set[int]().union(*map(self.kernels_reading, writes))
        return any(self.groups[node].sums_columns() for node in readers & self.groups.keys())

    def merge(self, first: int, second: int) -> int | None:
        """Makes one kernel of two, and returns its number; None where it would wait for itself."""
        reads, writes = self.traded(first, second)
        pair = self.clusters.merge(first, second)
        if pair is None:
            return None
        kept, gone = pair
        self.waits.merge(kept, gone)
        self.actions[kept] = self.actions[kept] or self.actions[gone]
        one, other = self.groups[kept], self.groups.pop(gone)
        assert one.loops is not None and other.loops is not None
        loops = self.joined(one.loops, other.loops)
        assert isinstance(loops, Loops)
        one.members += other.members
        for value in one.reads | other.reads:
            self.readers[value] -= {kept, gone}
        for value in reads:
            self.readers[value].add(kept)
        one.loops, one.reads, one.writes = loops, reads, writes
        one.in_loops = (one.in_loops | other.in_loops) & reads
        self._rename(kept, gone)
        return kept

    def put(self, nodes: Sequence[int], kernel: Group) -> None:
        """Makes one kernel of several, in a topological order, that is possible as a whole, but not by every way."""
        kept, *others = nodes
        for node in others:
            pair = self.clusters.merge(kept, node)
            assert pair is not None, "a kernel that waits for itself"
            kept, gone = pair
            self.waits.merge(kept, gone)
            self._rename(kept, gone)
        for node in nodes:
            for value in self.groups.pop(node).reads:
                self.readers[value].discard(node)
        for value in kernel.reads:
            self.readers[value].add(kept)
        self.groups[kept] = kernel

    def _rename(self, kept: int, gone: int) -> None:
        for node in self.clusters.after[kept]:
            if (gone, node) in self.apart:
                self.apart.setdefault((kept, node), self.apart[gone, node])
        for node in self.clusters.before[kept]:
            if (node, gone) in self.apart:
                self.apart.setdefault((node, kept), self.apart[node, gone])

    def join(self, most_values: int) -> None:
        """Joins small independent kernels over the same loops, ready or needed together, up to so many values."""
        quick = {node for node, group in self.groups.items() if group.is_quick()}
        ends = self.waits.ends(quick)
        open_: dict[Hashable, int] = {}
        for node in sorted(quick, key=self.clusters.order.__getitem__):
            if not self._may_join(node):
                continue
            key = self.groups[node].loops, self.waits.when(node, ends), self.actions[node], self.homes[node]
            other = open_.get(key)
            merged = None if other is None else self._join(other, node, most_values)
            open_[key] = node if merged is None else merged

    def _join(self, first: int, second: int, most_values: int) -> int | None:
        is_after = second in self.clusters.after[first]
        reads, writes = self.traded(first, second)
        return None if is_after or len(reads) + len(writes) > most_values else self.merge(first, second)

    def _may_join(self, node: int) -> bool:
        """Whether a quick kernel can compute more, and is not beside a kernel of a whole composite."""
        group = self.groups[node]
        values = group.reads | group.writes
        if group.loops is None or prod(group.loops.over) == 1:
            return False
        if any(not self.values.is_float[value] or value in self.turning for value in values):
            return False
        return not self.waits.composites & (self.clusters.before[node] | self.clusters.after[node])

    def fusion(self) -> Fusion:
        """The kernels as they are."""
        groups = sorted(tuple(sorted(group.members)) for group in self.groups.values())
        return Fusion(tuple(groups), lambda: sorted(self.refusals(), key=lambda each: (-each.bytes, each.first)))

    def refusals(self) -> Iterator[Refusal]:
        """What stopped the remaining fusions."""
        for first in sorted(self.groups):
            for second in sorted(self.clusters.after[first]):
                if second in self.groups and (saved := self.saved(first, second)):
                    why = self.why_not(first, second)
                    members = self.groups[first].members[0], self.groups[second].members[0]
                    yield Refusal(*members, saved, why or "another kernel between them")


def _actions(graph: Graph, nodes: Sequence[int]) -> list[str]:
    """The action of a pipeline to which each node belongs; "" of none."""
    # Only a stage of a pipeline has started movements here.
    is_stage = any(op.name == dm.StartOp.OPERATION_NAME for op in graph.ops)
    return [action_of(graph.ops[number].location) if is_stage else "" for number in nodes]
