"""A piece with what it needs to know of the rest of the step; those that are alike have equal answers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.fusion_optimum.candidates import Candidates, Needs, Ties
from dmc.analysis.kernels.fusion.greedy import Merging
from dmc.analysis.kernels.groups import Group
from dmc.analysis.kernels.shapes import Loops


@dataclass(frozen=True)
class Piece:
    """atoms: its kernels, as they are merged at most so far, in a topological order; others refer to them by bits.
    greedy: the loops of the kernels that the greedy fusion makes of them, which are a partition."""

    atoms: tuple[int, ...]
    ties: tuple[Ties, ...]
    needs: Mapping[int, Needs]
    greedy: Mapping[int, Loops | None]

    def candidates(self, merging: Merging) -> Candidates:
        """The kernels that it may be made of, so far the atoms and the greedy ones."""
        found = Candidates(merging, self.ties, [merging.groups[atom] for atom in self.atoms], self.needs)
        for mask, loops in self.greedy.items():
            found.add(mask, loops)
        return found

    def nodes(self, mask: int) -> tuple[int, ...]:
        """The atoms of a set."""
        return tuple(atom for i, atom in enumerate(self.atoms) if mask >> i & 1)

    def signature(self, merging: Merging) -> Hashable:
        """Equal for two pieces only if the same sets of atoms are possible, and cost the same."""
        graph, values, numbers = merging.graph, merging.values, dict[int, int]()

        def numbered(some: Iterable[int]) -> tuple[int, ...]:
            return tuple(sorted(numbers.setdefault(value, len(numbers)) for value in sorted(some)))

        words: list[Hashable] = [self.ties, tuple(self.greedy.items())]
        for atom in self.atoms:
            group = merging.groups[atom]
            for member in sorted(group.members):
                ends = (*graph.reads[member], *graph.ops[member].results)
                bases = [values.number(graph.base(value)) for value in ends]
                words += graph.alike[member], *(numbers.setdefault(base, len(numbers)) for base in bases)
            words += None, *(numbered(some) for some in (group.reads, group.writes, group.in_loops))
        for value in numbers:
            sizes = values.bytes[value], values.elements[value], value in merging.turning
            words += *sizes, self.needs.get(value)
        return tuple(words)


class Surroundings:
    """The whole step around its pieces.

    merging: the atoms. greedy: the greedy kernels, and the number of each node's.
    """

    def __init__(self, merging: Merging, kernels: Mapping[int, Group], greedy: Mapping[int, int]) -> None:
        self.merging, self.kernels, self.greedy = merging, kernels, greedy
        order = sorted({merging.clusters.find(node) for node in range(len(merging.nodes))}, key=self._place)
        self.reached: dict[int, int] = {}
        for node in reversed(order):
            self.reached[node] = 0
            for each in merging.clusters.after[node]:
                self.reached[node] |= self.reached[each] | 1 << each
        self.summing = {node for node in merging.groups if self._sums_columns(node)}

    def _place(self, node: int) -> int:
        return self.merging.clusters.order[node]

    def _sums_columns(self, node: int) -> bool:
        """Whether it adds up over columns, by itself or as the greedy fusion has it."""
        return self.merging.groups[node].sums_columns() or self.kernels[self.greedy[node]].sums_columns()

    def piece(self, atoms: Iterable[int]) -> Piece:
        """The piece that consists of these atoms."""
        ordered = tuple(sorted(atoms, key=self._place))
        bits = {atom: 1 << i for i, atom in enumerate(ordered)}
        values = {value for atom in ordered for value in self._values(atom)}
        needs = {value: self._needs(value, bits) for value in sorted(values)}
        ties = [self._ties(atom, bits) for atom in ordered]
        greedy: dict[int, int] = {}
        for atom in ordered:
            greedy[self.greedy[atom]] = greedy.get(self.greedy[atom], 0) | bits[atom]
        seeds = {mask: self.kernels[number].loops for number, mask in greedy.items()}
        return Piece(ordered, *_with_few_waits(ties, needs), seeds)

    def _values(self, atom: int) -> Collection[int]:
        return self.merging.groups[atom].reads | self.merging.groups[atom].writes

    def _ties(self, atom: int, bits: Mapping[int, int]) -> Ties:
        merging, after = self.merging, self.merging.clusters.after[atom]
        inside, outside = [each for each in after if each in bits], [each for each in after if each not in bits]
        values = self._values(atom)
        near = {each for value in values for each in merging.readers.get(value, ())} | merging.clusters.before[atom]
        away = 0
        for each in outside:
            away |= self.reached[each]
        return Ties(
            after=sum(bits[each] for each in inside),
            apart=sum(bits[each] for each in inside if (atom, each) in merging.apart),
            near=sum(bits[each] for each in near | after if each in bits),
            reached=_projected(self.reached[atom], bits),
            outside=_projected(away, bits),
            waits=merging.waits.of(atom),
        )

    def _needs(self, value: int, bits: Mapping[int, int]) -> Needs:
        merging, beyond = self.merging, 1 << len(bits)
        readers = {merging.clusters.find(node) for node in merging.readers.get(value, ())}
        others, waits = readers - bits.keys(), -1
        for each in others:
            waits &= merging.waits.of(each)
        turned = {merging.clusters.find(node) for node in merging.turned.get(value, ())}

        def masked(nodes: Iterable[int]) -> int:
            found = 0
            for node in nodes:
                found |= bits.get(node, beyond)
            return found

        held = beyond if value in merging.held else 0
        return Needs(masked(readers) | held, masked(turned), masked(readers & self.summing), waits)


def _projected(nodes: int, bits: Mapping[int, int]) -> int:
    return sum(bit for node, bit in bits.items() if nodes >> node & 1)


def _with_few_waits(ties: Sequence[Ties], needs: Mapping[int, Needs]) -> tuple[tuple[Ties, ...], dict[int, Needs]]:
    """The same with numbers of movements that depend on nothing but which of these wait for them."""
    waits = [*(each.waits for each in ties), *(each.waits for each in needs.values())]
    every = 0
    for each in ties:
        every |= each.waits
    patterns = sorted({tuple(each >> i & 1 for each in waits) for i in range(every.bit_length()) if every >> i & 1})
    few = iter([sum(pattern[i] << place for place, pattern in enumerate(patterns)) for i in range(len(waits))])
    return (
        tuple(Ties(e.after, e.apart, e.near, e.reached, e.outside, next(few)) for e in ties),
        {value: Needs(e.readers, e.turned, e.summing, next(few)) for value, e in needs.items()},
    )
