"""Records a function's dataflow, node by node: the builder used by all rules of `dmc.analysis.dataflow`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

from dmc._mlir import func, ir
from dmc.analysis.dataflow.text import Text, shortened
from dmc.mesh import Mesh
from dmc.program.dataflow import NOBODY, Apply, Body, Node, Pointwise, Read, Rows
from dmc.program.sizes import element_bytes

# A slice of more ranges than this, and than the mesh has ranks, is known by its bounds.
_MOST_PIECES = 256


@dataclass
class Module:
    """State shared by the functions of a module; `bodies`: those already read, by name."""

    functions: Mapping[str, func.FuncOp]
    mesh: Mesh
    bodies: dict[str, Body] = field(default_factory=dict[str, Body])
    # Cached properties of generics with equal loops (`dmc.analysis.dataflow.elements`).
    loops: dict[Any, Any] = field(default_factory=dict[Any, Any])
    # There are few types, and querying MLIR for them is slow.
    _bytes: dict[ir.Type, int] = field(default_factory=dict[ir.Type, int])
    _sizes: dict[ir.Type, int] = field(default_factory=dict[ir.Type, int])

    @property
    def most_pieces(self) -> int:
        """A slice of more ranges is known by its bounds."""
        return max(_MOST_PIECES, self.mesh.size)

    def element_bytes(self, type_: ir.Type) -> int:
        """Bytes of one element of a tensor, or of a scalar."""
        if type_ not in self._bytes:
            self._bytes[type_] = element_bytes(str(getattr(type_, "element_type", type_)))
        return self._bytes[type_]

    def size(self, type_: ir.Type) -> int:
        """Bytes of a tensor or a scalar."""
        size = self._sizes.get(type_)
        if size is None:
            elements = prod(type_.shape) if isinstance(type_, ir.RankedTensorType) else 1
            size = self._sizes[type_] = self.element_bytes(type_) * elements
        return size


@dataclass
class Reader:
    """The values of one function, by their numbers, and its nodes so far."""

    module: Module
    arguments: int
    numbers: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    nodes: list[Node] = field(default_factory=list[Node])
    count: int = 0

    def __post_init__(self) -> None:
        self.count = self.arguments

    def __getitem__(self, value: ir.Value) -> int:
        return self.numbers[value]

    def __setitem__(self, value: ir.Value, number: int) -> None:
        self.numbers[value] = number

    def all(self, values: Sequence[ir.Value]) -> tuple[int, ...]:
        """The numbers of several values."""
        return tuple([self.numbers[value] for value in values])

    def add(self, node: Node, results: int = 1) -> int:
        """Adds a node; returns the number of its first result."""
        self.nodes.append(node)
        self.count += results
        return self.count - results

    def pointwise(self, code: str, operands: Sequence[int], size: int) -> int:
        """An elementwise operation."""
        return self.add(Pointwise(code, tuple(operands), size))

    def read(self, code: str, operand: int, size: int, everywhere: bool = False) -> int:
        """The elements of a value, rearranged."""
        return self.add(Read(code, operand, size, everywhere))

    def rows(self, pieces: Sequence[tuple[int, int, int]]) -> int:
        """Pieces of values, concatenated."""
        return self.add(Rows(tuple(pieces)))

    def unwritten(self, size: int) -> int:
        """Uninitialised bytes."""
        return self.rows([(NOBODY, 0, size)])

    def opaque(self, op: ir.Operation) -> None:
        """An opaque operation, known by its text."""
        text = Text()
        code = shortened(text.of(op))
        sizes = tuple(self.module.size(result.type) for result in op.results)
        first = self.add(Apply(code, self.all(text.taken), sizes), len(sizes))
        self.numbers.update((result, first + i) for i, result in enumerate(op.results))


Rule: TypeAlias = Callable[[Reader, ir.Operation], None]
