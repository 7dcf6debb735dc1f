"""The pieces of a step that can be fused independently of each other, and what of them is surely one kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from dmc.analysis.kernels.fusion.greedy import Merging
from dmc.analysis.kernels.fusion.rules import GONE
from dmc.analysis.kernels.groups import Group
from dmc.analysis.kernels.shapes import Loops

# Pieces of so many operations are solved as they are, without `settle`.
_FEW = 12
# Pieces of more are divided further, where only values of so many elements hold them together.
_LARGE, _SMALL = 256, 1 << 15


def pieces_of(merging: Merging, greedy: Mapping[int, int]) -> list[list[int]]:
    """The kernels, in parts that no kernel may be made across.

    merging: nothing is merged yet. greedy: by node, a number of its kernel in the greedy fusion, which is never divided
    between pieces. Values of one element bring nothing together beyond that: hyperparameters would, all updates. Where
    a piece is large even so, nor do values of few elements: biases would, which both passes and their updates read. At
    last, kernels between which another must run are apart, although some of their operations might change places: all
    layers may be along one residual stream.
    """
    relation = _Relation(merging, greedy)
    found = relation.parts(merging.groups, least=2)
    for is_strict in (False, True):
        divided = (relation.parts(each, _SMALL, is_strict) if len(each) > _LARGE else [each] for each in found)
        found = [part for parts in divided for part in parts]
    return found


class _Relation:
    """Which kernels may be in one."""

    def __init__(self, merging: Merging, greedy: Mapping[int, int]) -> None:
        self.merging, self.greedy, self.refused = merging, greedy, dict[tuple[Loops, Loops], bool]()
        # By node, bits of the nodes that it leads to, and of those to which it does so across what is never fused.
        count = len(merging.nodes)
        self.reached, self.behind = [0] * count, [0] * count
        for node in reversed(range(count)):
            for each in merging.clusters.after[node]:
                reached = self.reached[each] | 1 << each
                self.reached[node] |= reached
                self.behind[node] |= reached if self.never(node, each) else self.behind[each]
        # The same of greedy kernels, by number, and the nodes of each.
        self.behind_kernel, self.kernel = dict[int, int](), dict[int, int]()
        for node in merging.groups:
            number = greedy[node]
            self.behind_kernel[number] = self.behind_kernel.get(number, 0) | self.behind[node]
            self.kernel[number] = self.kernel.get(number, 0) | 1 << node

    def never(self, first: int, second: int) -> bool:
        """Whether no kernel may contain both, whatever else it contains."""
        groups = self.merging.groups
        one, other = groups.get(first), groups.get(second)
        if one is None or other is None or one.loops is None or other.loops is None:
            return True
        if (first, second) in self.merging.apart:
            return True
        pair = one.loops, other.loops
        if pair not in self.refused:
            self.refused[pair] = self._never_joined(*pair)
        return self.refused[pair]

    def _never_joined(self, one: Loops, other: Loops) -> bool:
        if not isinstance(self.merging.joined(one, other), str):
            return False
        bare = self.merging.joined(_without_sizes(one), _without_sizes(other))
        if isinstance(bare, str):
            return True
        # A reduction of a third kernel may allow one more size.
        reductions = [each for each in (bare.rows, bare.columns) if each]
        allowed = {bare.product, bare.width} | {size for each in reductions for size in (each[0] * each[1], *each)}
        return not (one.sizes | other.sizes) <= allowed

    def parts(self, nodes: Iterable[int], least: int, is_strict: bool = False) -> list[list[int]]:
        """Divides kernels as `pieces_of` does, where values of `least` elements bring them together. is_strict: kernels
        between which another must run are apart."""
        part, among = _Parts(), sorted(nodes)
        first: dict[int, int] = {}
        for node in among:
            part.join(node, first.setdefault(self.greedy[node], node))
        for one, other in self._pairs(set(among), least):
            if is_strict and self._is_between(self.greedy[one], self.greedy[other]):
                continue
            is_possible = not self.never(one, other) and not self.behind[one] >> other & 1
            if is_possible and self.merging.saved(one, other):
                part.join(one, other)
        found: dict[int, list[int]] = {}
        for node in among:
            found.setdefault(part.of(node), []).append(node)
        return list(found.values())

    def _is_between(self, one: int, other: int) -> bool:
        behind, kernel = self.behind_kernel, self.kernel
        return bool(behind[one] & kernel[other] or behind[other] & kernel[one])

    def _pairs(self, among: set[int], least: int) -> Iterator[tuple[int, int]]:
        """Kernels that read what another writes, or that read the same in loops over all of it."""
        groups, readers = self.merging.groups, self.merging.readers
        elements = self.merging.values.elements
        for node in sorted(among):
            values = (value for value in groups[node].writes if elements[value] >= least)
            after = {each for value in values for each in readers.get(value, ())}
            yield from ((node, each) for each in sorted(after & among))
        for value, nodes in readers.items():
            if elements[value] >= least:
                beside = [each for each in sorted(nodes & among) if self._is_whole(value, groups[each])]
                yield from ((one, other) for i, one in enumerate(beside) for other in beside[i + 1 :])

    def _is_whole(self, value: int, group: Group) -> bool:
        """Whether a kernel may have an element of a value for each iteration, if it has not too many already."""
        if group.loops is None or value not in group.in_loops:
            return False
        return prod(group.loops.over) <= self.merging.values.elements[value]


def _without_sizes(loops: Loops) -> Loops:
    return Loops(frozenset(), loops.product, loops.width, loops.rows, loops.columns, loops.words, loops.inner)


class _Parts:
    """Disjoint sets."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def of(self, node: int) -> int:
        """The number of the set that holds a node."""
        parent = self._parent
        while (above := parent.get(node, node)) != node:
            parent[node] = parent.get(above, above)
            node = above
        return node

    def join(self, one: int, other: int) -> None:
        """Makes one set of two."""
        self._parent[self.of(one)] = self.of(other)


def settle(merging: Merging, piece: list[int], greedy: Mapping[int, int]) -> list[int]:
    """Merges what is hardly ever better apart, if a piece is large; returns its kernels.

    That is a kernel with its only reader, where it reads no more than it writes, and the greedy fusion has both in one.
    """
    if len(piece) <= _FEW:
        return piece
    kept, is_done = piece, False
    while not is_done:
        is_done = True
        for node in kept:
            reader = _only_reader(merging, node) if node in merging.groups else None
            if reader is None or greedy[reader] != greedy[node] or not _reads_little(merging, node, reader):
                continue
            if not merging.why_not(node, reader) and merging.merge(node, reader) is not None:
                is_done = False
        kept = [node for node in kept if node in merging.groups]
    return sorted(kept, key=merging.clusters.order.__getitem__)


def _only_reader(merging: Merging, node: int) -> int | None:
    writes = merging.groups[node].writes
    readers = {each for value in writes for each in merging.readers.get(value, ())}
    is_one = len(readers) == 1 and writes.isdisjoint(merging.held) and readers <= merging.groups.keys()
    return readers.pop() if is_one else None


def _reads_little(merging: Merging, node: int, reader: int) -> bool:
    group, bytes_ = merging.groups[node], merging.values.bytes
    more = sum(bytes_[value] for value in group.reads - merging.groups[reader].reads)
    written = sum(bytes_[value] for value in group.writes)
    return more <= written + written // GONE
