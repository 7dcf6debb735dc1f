"""Fusion by an integer program, piece by piece."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from bench.fusion_optimum.partition import partition
from bench.fusion_optimum.pieces import pieces_of, settle
from bench.fusion_optimum.surroundings import Piece, Surroundings
from dmc.analysis.kernels.fusion.greedy import MOST_VALUES, Fusion, Merging, merged
from dmc.analysis.kernels.graph import Graph
from dmc.analysis.kernels.shapes import Loops

# A larger piece stays as the greedy fusion has it.
_MOST_ATOMS = 64


@dataclass(frozen=True)
class Solved:
    """What the integer program did.

    pieces: parts of the step that are fused independently of each other, and of more than one kernel. distinct: those
    that are not alike, each solved once. complete: those for which all possible kernels of what `settle` leaves apart
    were candidates. kept: pieces that are too large, or whose kernels would wait for each other, left as the greedy
    fusion has them. cost, bound, greedy: bytes of the other pieces, and of their launches; no partition into the
    candidates costs less than `bound`.
    """

    pieces: int
    distinct: int
    complete: int
    kept: int
    cost: float
    bound: float
    greedy: float

    @property
    def gap(self) -> float:
        """By how much of the cost it may be above the best into the candidates."""
        return 1 - self.bound / self.cost if self.cost else 0.0


def fuse_optimally(
    graph: Graph, launch: float, most_values: int = MOST_VALUES, most_joined: int = 0, own: bool = False
) -> tuple[Fusion, Solved]:
    """As `fuse`, with the fewest bytes through device memory, where a launch counts as `launch` bytes.

    The candidates are what the greedy fusion may make, and what it makes: the result is never worse. Raises DmcError
    where HiGHS is not installed.
    """
    greedy = merged(graph, most_values, own)
    best = Merging(graph, most_values, own)
    solved = _Optimum(best, greedy, launch).solve()
    for each in (best, greedy):
        each.join(most_joined)
    return min((best, greedy), key=lambda each: _cost(each, launch)).fusion(), solved


def _cost(merging: Merging, launch: float) -> float:
    return launch * len(merging.groups) + merging.bytes()


@dataclass(frozen=True)
class _Answer:
    """chosen: the kernels of a piece, with their loops. greedy: what the greedy ones cost."""

    chosen: Mapping[int, Loops | None]
    cost: float
    bound: float
    greedy: float
    is_complete: bool


class _Optimum:
    """merging: the step's operations, each apart. greedy: as they are merged greedily."""

    def __init__(self, merging: Merging, greedy: Merging, launch: float) -> None:
        self.merging, self.launch = merging, launch
        number = {node: greedy.clusters.find(node) for node in greedy.node_of.values()}
        # No search is too long here: what is put together is known to be possible.
        merging.clusters.budget = len(merging.nodes)
        parts = [settle(merging, each, number) for each in pieces_of(merging, number)]
        around = Surroundings(merging, greedy.groups, number)
        self.pieces = [around.piece(each) for each in parts]
        self.answers: dict[Hashable, _Answer] = {}
        self.solutions = {place: self._solution(each) for place, each in enumerate(self.pieces) if _is_open(each)}

    def _solution(self, piece: Piece) -> _Answer:
        key = piece.signature(self.merging)
        if key not in self.answers:
            found = piece.candidates(self.merging)
            found.grow(self.launch)
            costs = {each: found.bytes_of(each) + self.launch for each in found.groups}
            best = partition(costs, [each.reached for each in piece.ties], tuple(piece.greedy))
            chosen = {each: found.groups[each].loops for each in best.chosen}
            greedy = sum(map(costs.__getitem__, piece.greedy))
            self.answers[key] = _Answer(chosen, best.cost, best.bound, greedy, found.is_complete)
        return self.answers[key]

    def solve(self) -> Solved:
        """Merges the kernels of each piece."""
        undone = self._undone()
        for place, piece in enumerate(self.pieces):
            found = piece.candidates(self.merging)
            for mask, loops in self._chosen(place, undone).items():
                found.add(mask, loops)
                self.merging.put(piece.nodes(mask), found.groups[mask])
        several = [place for place, piece in enumerate(self.pieces) if len(piece.greedy) > 1]
        solved = [self.solutions[place] for place in several if place in self.solutions]
        return Solved(
            pieces=len(several),
            distinct=len(self.answers),
            complete=sum(each.is_complete for each in solved),
            kept=len(several) - len(solved) + len(undone),
            cost=sum(each.cost for each in solved),
            bound=sum(each.bound for each in solved),
            greedy=sum(each.greedy for each in solved),
        )

    def _undone(self) -> set[int]:
        """The pieces whose kernels would wait for each other across pieces: the greedy ones take their place."""
        undone: set[int] = set()
        while cycle := self._cycle(undone):
            found = {place for place, _ in cycle} & self.solutions.keys() - undone
            assert found, "the greedy kernels wait for each other"
            undone |= found
        return undone

    def _cycle(self, undone: Collection[int]) -> Sequence[tuple[int, int]]:
        """Kernels that would wait for each other, by their pieces' places and their atoms; none if there are none."""
        kernel_of = {node: (-1, node) for node in range(len(self.merging.nodes))}
        for place, piece in enumerate(self.pieces):
            for mask in self._chosen(place, undone):
                kernel_of.update(dict.fromkeys(piece.nodes(mask), (place, mask)))
        sorter: TopologicalSorter[tuple[int, int]] = TopologicalSorter()
        edges = ((node, each) for node, later in enumerate(self.merging.clusters.after) for each in sorted(later))
        for node, each in edges:
            if kernel_of[node] != kernel_of[each]:
                sorter.add(kernel_of[each], kernel_of[node])
        try:
            sorter.prepare()
        except CycleError as error:
            return error.args[1]
        return ()

    def _chosen(self, place: int, undone: Collection[int]) -> Mapping[int, Loops | None]:
        is_solved = place in self.solutions and place not in undone
        return self.solutions[place].chosen if is_solved else self.pieces[place].greedy


def _is_open(piece: Piece) -> bool:
    """Whether another partition may be better than the greedy one, and is found in reasonable time."""
    return len(piece.greedy) > 1 and len(piece.atoms) <= _MOST_ATOMS
