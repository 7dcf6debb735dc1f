"""What a kernel computes, but for the values that it reads: repeated layers have the same patterns."""

from __future__ import annotations

from dataclasses import dataclass, field

from dmc._mlir import ir
from dmc.analysis.kernels.graph import Graph, Kind
from dmc.passes.scheduled.form_kernels.outline import Outline

# An operation: what it is alike to, whether the kernel is formed of it, and the values that it uses.
_Line = tuple[int, bool, tuple[int, ...]]
# Lines in order, and the values that are returned.
Pattern = tuple[tuple[_Line, ...], tuple[int, ...]]


def pattern_of(graph: Graph, outline: Outline) -> Pattern:
    """Kernels of one pattern have bodies of the same text, and the same cost.

    Values are numbered: the operands, then the results of each line. A constant is a line where it is first read.
    """
    written = _Written(graph, frozenset(outline.members), {value: i for i, value in enumerate(outline.inputs)})
    for number in outline.body:
        if graph.kinds[number] is not Kind.CONSTANT or number in written.members:
            written.add(number)
    return tuple(written.lines), tuple([written.numbers[value] for value in outline.outputs])


@dataclass
class _Written:
    graph: Graph
    members: frozenset[int]
    numbers: dict[ir.Value, int]
    lines: list[_Line] = field(default_factory=list[_Line])

    def add(self, number: int) -> None:
        graph, numbers = self.graph, self.numbers
        read = graph.reads[number]
        for value in read:
            if value not in numbers:
                self.add(graph.made_by[value])
        self.lines.append((graph.alike[number], number in self.members, tuple([numbers[value] for value in read])))
        for result in graph.ops[number].results:
            numbers[result] = len(numbers)
