"""Which computations are fused into one kernel: greedily, by bytes of device memory traffic saved."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from math import prod

from dmc.analysis.kernels.clusters import Clusters
from dmc.analysis.kernels.cost import has_function
from dmc.analysis.kernels.graph import Graph, Kind
from dmc.analysis.kernels.groups import Group, Refusal, why_not_summed
from dmc.analysis.kernels.reads import ORDER, memory_reads, sources
from dmc.analysis.kernels.shapes import Loops, loops_of
from dmc.analysis.kernels.traded import Traded
from dmc.analysis.kernels.waits import Waits

# Operands and results of a kernel: IREE's runtime binds 32 buffers in a dispatch, a quarter of them for itself.
MOST_VALUES = 24
# The same, where several small kernels that are independent of each other share a launch.
MOST_JOINED = 64
# A value that more kernels read than this brings none of them together.
MOST_READERS = 8
# What leaves memory ranks higher than what is read once less, by this share: statistics beside a tensor do not decide.
_GONE = 32


@dataclass(frozen=True)
class Fusion:
    """groups: the numbers of the operations of each kernel, ascending. refusals: returns them, the largest first."""

    groups: tuple[tuple[int, ...], ...]
    refusals: Callable[[], list[Refusal]]


def fuse(graph: Graph, most_values: int = MOST_VALUES, most_joined: int = 0, own: bool = False) -> Fusion:
    """Groups every operation that computes with others, by the bytes that are neither written nor read any more.

    A kernel has at most `most_values` operands and results, unless one operation has more. Small kernels that have
    nothing in common are joined up to `most_joined`. own: whether dmc's own code computes the kernels: it fuses
    concatenations with what they read. Linear in operations but for a heap, if values have few readers.
    """
    merging = _Merging(graph, most_values, own)
    merging.run()
    merging.join(most_joined)
    groups = sorted(tuple(sorted(group.members)) for group in merging.groups.values())
    return Fusion(tuple(groups), lambda: sorted(merging.refusals(), key=lambda each: (-each.bytes, each.first)))


class _Merging:
    def __init__(self, graph: Graph, most_values: int, own: bool) -> None:
        self.graph, self.most_values, self.own = graph, most_values, own
        self.nodes = [i for i, kind in enumerate(graph.kinds) if kind in (Kind.COMPUTE, Kind.MOVEMENT)]
        self.node_of = {number: node for node, number in enumerate(self.nodes)}
        # What dmc's own kernels fuse in other ways.
        self.functions = {number for number in self.nodes if own and graph.fact(has_function, number)}
        self.groups: dict[int, Group] = {}
        self.values, self.joined = Traded(), functools.cache(functools.partial(Loops.joined, own=own))
        self.readers: dict[int, set[int]] = {}
        self.held = {self.values.number(graph.base(value)) for value in graph.returned}
        # What keeps two clusters apart; nodes that read a value in another order than it is written; their results.
        self.apart: dict[tuple[int, int], str] = {}
        self.turned: dict[int, list[int]] = {}
        self.turning: set[int] = set()
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
            saved = self._saved(first, second, ranked=self.own)
            added: Iterable[tuple[int, int, int]] = ()
            if saved < -entry[0]:
                added = ((-saved, first, second),)
            elif not self._why_not(first, second) and (merged := self._merge(first, second)) is not None:
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
            if pair not in self.apart and (saved := self._saved(first, second, ranked=self.own)):
                yield -saved, first, second

    def _in_order(self, one: int, other: int) -> tuple[int, int]:
        order = self.clusters.order
        return (one, other) if order[one] < order[other] else (other, one)

    def _saved(self, first: int, second: int, ranked: bool = False) -> int:
        """The bytes saved by fusing two kernels. ranked: as fusions are ordered, see `_GONE`."""
        one, other, bytes_ = self.groups[first], self.groups[second], self.values.bytes
        saved = sum(map(bytes_.__getitem__, one.reads & other.reads))
        for value in one.writes & other.reads:
            is_wanted = self._is_wanted(value, first, second)
            saved += bytes_[value] if is_wanted else 2 * bytes_[value] + ranked * bytes_[value] // _GONE
        return saved

    def _is_wanted(self, value: int, first: int, second: int) -> bool:
        return value in self.held or not self.readers[value] <= {first, second}

    def _why_not(self, first: int, second: int) -> str:
        """Why two kernels cannot be fused, apart from cycles."""
        if (first, second) in self.apart:
            return self.apart[first, second]
        one, other = self.groups[first], self.groups[second]
        if one.loops is None or other.loops is None:
            return "a kernel of its own"
        loops = self.joined(one.loops, other.loops)
        if isinstance(loops, str):
            return loops
        if second not in self.clusters.after[first] and not self._are_siblings(first, second):
            return "no loops in common"
        reads, writes = self._joined(first, second)
        if self._delays(first, second) or self._delays(second, first):
            return "a result that others read before a movement arrives"
        if len(reads) + len(writes) > self.most_values:
            return f"more than {self.most_values} operands and results"
        if why := why_not_summed(loops, one, other, self.functions, writes):
            return why
        computes = not self.functions.isdisjoint((*one.members, *other.members))
        if any(not loops.may_give(self.values.elements[value], computes) for value in writes):
            return "a result that is read elsewhere"
        if loops.product and not self._is_epilogue(first, second, writes):
            return "a result that does not depend on the product"
        # What an epilogue already reads would be written and read between them.
        if one.loops.product and computes and not loops.columns and self._is_faster_apart(other):
            return "a function whose results are summed over columns"
        turned = [value for value in one.writes if self._is_turned(value, second)]
        if turned and (loops.rows or loops.columns or loops.product or any(value in writes for value in turned)):
            return ORDER
        if (loops.rows or loops.columns) and any(value in self.turning for value in writes):
            return ORDER
        return ""

    def _delays(self, early: int, late: int) -> bool:
        """Whether others that read the results of one kernel would wait for a movement for which the other waits."""
        if not self.waits.is_more(late, early):
            return False
        nodes = {each for value in self.groups[early].writes for each in self.readers.get(value, ())}
        readers = set(map(self.clusters.find, nodes))
        return any(self.waits.is_more(late, each) for each in readers - {early, late})

    def _are_siblings(self, first: int, second: int) -> bool:
        """Whether two independent kernels iterate over one tensor in the same loops."""
        one, other = self.groups[first], self.groups[second]
        if any(value in self.turning for value in one.writes | other.writes):
            return False
        return one.is_beside(other, self.own)

    def _is_epilogue(self, first: int, second: int, writes: set[int]) -> bool:
        """Whether a kernel with a product computes all its results behind it."""
        one, other = self.groups[first], self.groups[second]
        assert one.loops is not None
        if self.own and (one.loops.product or second not in self.clusters.after[first]):
            return True
        if not one.loops.product:
            return not any(value in writes for value in one.writes)
        after = set(one.writes)
        for number in sorted(other.members):
            if any(self.values.number(self.graph.base(value)) in after for value in self.graph.reads[number]):
                after.update(map(self.values.number, self.graph.ops[number].results))
        return all(value in after for value in writes)

    def _is_faster_apart(self, epilogue: Group) -> bool:
        """Whether a function after a product is better fused with sums over columns that read it, as a bias's gradient.

        The library's products are faster than those with an epilogue, most of all with one that computes long.
        """
        readers = {self.clusters.find(node) for value in epilogue.writes for node in self.readers.get(value, ())}
        return any(self.groups[node].sums_columns() for node in readers & self.groups.keys())

    def _is_turned(self, value: int, reader: int) -> bool:
        return any(self.clusters.find(node) == reader for node in self.turned.get(value, ()))

    def _joined(self, first: int, second: int) -> tuple[set[int], set[int]]:
        one, other = self.groups[first], self.groups[second]
        made = one.writes | other.writes
        writes = {value for value in made if self._is_wanted(value, first, second)}
        return (one.reads | other.reads) - made, writes

    def _merge(self, first: int, second: int) -> int | None:
        reads, writes = self._joined(first, second)
        pair = self.clusters.merge(first, second)
        if pair is None:
            return None
        kept, gone = pair
        self.waits.merge(kept, gone)
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
            key = self.groups[node].loops, self.waits.when(node, ends)
            other = open_.get(key)
            merged = None if other is None else self._join(other, node, most_values)
            open_[key] = node if merged is None else merged

    def _join(self, first: int, second: int, most_values: int) -> int | None:
        is_after = second in self.clusters.after[first]
        reads, writes = self._joined(first, second)
        return None if is_after or len(reads) + len(writes) > most_values else self._merge(first, second)

    def _may_join(self, node: int) -> bool:
        """Whether a quick kernel can compute more, and is not beside a kernel of a whole composite."""
        group = self.groups[node]
        values = group.reads | group.writes
        if group.loops is None or prod(group.loops.over) == 1:
            return False
        if any(not self.values.is_float[value] or value in self.turning for value in values):
            return False
        return not self.waits.composites & (self.clusters.before[node] | self.clusters.after[node])

    def refusals(self) -> Iterator[Refusal]:
        """What stopped the remaining fusions."""
        for first in sorted(self.groups):
            for second in sorted(self.clusters.after[first]):
                if second in self.groups and (saved := self._saved(first, second)):
                    why = self._why_not(first, second)
                    members = self.groups[first].members[0], self.groups[second].members[0]
                    yield Refusal(*members, saved, why or "another kernel between them")
