"""What computations make of elements: whether loops are fused, and which results one of them gives, is nothing.

A scalar operation inside of a `linalg.generic` is an operation on all places of its loops at once. So a generic over
parallel loops is what its scalars are, one by one, and what two generics compute one behind the other is what one
computes that holds the scalars of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from dmc._mlir import ir
from dmc.analysis.dataflow_reader import Reader
from dmc.analysis.dataflow_text import Text, attributes_text, shortened
from dmc.analysis.kernel_cost import loop_sizes
from dmc.program.dataflow import Apply


def read_constant(reader: Reader, op: ir.Operation) -> None:
    """A constant; one that is the same everywhere is its element."""
    value = op.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr) and not value.is_splat:
        reader.opaque(op)
        return
    if isinstance(value, ir.DenseElementsAttr):
        value = value.get_splat_value()
    reader[op.results[0]] = reader.pointwise(f"arith.constant {value}", (), reader.module.size(op.results[0].type))


def read_arithmetic(reader: Reader, op: ir.Operation) -> None:
    """Arithmetic on scalars or whole tensors."""
    if len(op.regions):
        reader.opaque(op)
        return
    _add_scalar(reader, op, reader.all(list(op.operands)), 1)


def read_extract(reader: Reader, op: ir.Operation) -> None:
    """One element of a tensor, as a scalar."""
    table, *places = op.operands
    _add_scalar(reader, op, (_table(reader, table), *reader.all(places)), 1)


def read_fill(reader: Reader, op: ir.Operation) -> None:
    """A tensor that is the same everywhere is its element."""
    reader[op.results[0]] = reader[op.operands[0]]


def read_empty(reader: Reader, op: ir.Operation) -> None:
    """A tensor that nobody has written."""
    reader[op.results[0]] = reader.unwritten(reader.module.size(op.results[0].type))


def read_generic(reader: Reader, op: ir.Operation) -> None:
    """Each result by itself."""
    loops = _Loops.of(reader, op)
    for index, result in enumerate(op.results):
        reader[result] = _Result(loops, [index]).read()


def _add_scalar(reader: Reader, op: ir.Operation, operands: Sequence[int], places: int) -> None:
    """An operation on scalars, at so many places."""
    for number, result in enumerate(op.results):
        element = getattr(result.type, "element_type", result.type)
        which = f"#{number}" if number else ""
        code = f"{op.name}{which}{attributes_text(op)}:{element}"
        size = reader.module.size(result.type) * places
        reader[result] = reader.pointwise(code, operands, size)


def _table(reader: Reader, tensor: ir.Value) -> int:
    """A tensor of which any place may take any element."""
    return reader.read(f"table {tensor.type}", reader[tensor], reader.module.size(tensor.type), everywhere=True)


@dataclass(frozen=True)
class _Loops:
    """A generic: the sizes of its loops, where operands are read and results written, and its scalar operations."""

    reader: Reader
    op: ir.Operation
    sizes: tuple[int, ...]
    maps: tuple[ir.AffineMap, ...]
    block: ir.Block
    arguments: dict[ir.Value, int]
    yielded: tuple[ir.Value, ...]
    is_parallel: bool

    @staticmethod
    def of(reader: Reader, op: ir.Operation) -> _Loops:
        block: Any = op.regions[0].blocks[0]
        *_, terminator = block.operations
        return _Loops(
            reader,
            op,
            tuple(loop_sizes(op)),
            tuple(ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]),
            block,
            {argument: i for i, argument in enumerate(block.arguments)},
            tuple(terminator.operands),
            not any("reduction" in str(each) for each in op.attributes["iterator_types"]),
        )

    @property
    def places(self) -> int:
        """How often the loops go round."""
        return prod(self.sizes)

    @property
    def inputs(self) -> int:
        """The number of operands before those that are written."""
        return len(self.op.operands) - len(self.op.results)

    def operand(self, index: int) -> int:
        """What an operand is at every place of the loops."""
        value, each = self.op.operands[index], self.maps[index]
        number = self.reader[value]
        if not isinstance(value.type, ir.RankedTensorType) or self.is_identity(each):
            return number
        shape = tuple(value.type.shape)
        element = self.reader.module.element_bytes(value.type)
        code = f"{each} of {shape} over {self.sizes}"
        return self.reader.read(code, number, self.places * element, everywhere=not each.results)

    def is_identity(self, each: ir.AffineMap) -> bool:
        """Whether an operand is read, or a result written, at the place at which the loops are."""
        return each == ir.AffineMap.get_identity(each.n_dims)


@dataclass
class _Result:
    """One result of a generic. together: it, and the results whose values so far it is made of, by their numbers."""

    loops: _Loops
    together: list[int]
    scalars: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])

    def read(self) -> int:
        """Writes the nodes of this result; gives the number of the result."""
        loops, index = self.loops, self.together[0]
        written = loops.maps[loops.inputs + index]
        if loops.is_parallel and loops.is_identity(written):
            return self.scalar(loops.yielded[index])
        done: list[int] = []
        # More results may turn out to be made together with this one while their elements are looked at.
        for each in self.together:
            done.append(self.scalar(loops.yielded[each]))
        op, reader = loops.op, loops.reader
        outputs = [op.operands[loops.inputs + each] for each in self.together]
        maps = ",".join(f"{loops.maps[loops.inputs + each]} {value.type}" for each, value in zip(self.together, outputs))
        code = f"loops {loops.sizes} {op.attributes['iterator_types']} to {maps}"
        size = reader.module.size(op.results[index].type)
        return reader.add(Apply(shortened(code), (*done, *reader.all(outputs)), (size,)))

    def scalar(self, value: ir.Value) -> int:
        """What a scalar is at every place of the loops."""
        if value not in self.scalars:
            self.scalars[value] = self._scalar(value)
        return self.scalars[value]

    def _scalar(self, value: ir.Value) -> int:
        loops = self.loops
        if value in loops.arguments:
            return self._argument(loops.arguments[value])
        op = value.owner.operation if not isinstance(value.owner, ir.Block) else None
        if op is None or op.block != loops.block:
            return loops.reader[value]
        if op.name == "linalg.index":
            size = loops.places * loops.reader.module.element_bytes(value.type)
            return loops.reader.add(Apply(f"index {op.attributes['dim']} of {loops.sizes}", (), (size,)))
        if op.name == "arith.constant":
            read_constant(loops.reader, op)
        elif len(op.regions):
            self._with_regions(op)
        else:
            _add_scalar(loops.reader, op, [self._operand(each) for each in op.operands], loops.places)
        self.scalars.update((result, loops.reader[result]) for result in op.results)
        return self.scalars[value]

    def _argument(self, index: int) -> int:
        loops = self.loops
        if index < loops.inputs or loops.is_parallel:
            return loops.operand(index)
        result = index - loops.inputs
        if result not in self.together:
            self.together.append(result)
        value = loops.op.operands[index]
        size = loops.places * loops.reader.module.element_bytes(value.type)
        return loops.reader.add(Apply(f"so far {self.together.index(result)} of {loops.sizes}", (), (size,)))

    def _operand(self, value: ir.Value) -> int:
        is_table = isinstance(value.type, ir.RankedTensorType)
        return _table(self.loops.reader, value) if is_table else self.scalar(value)

    def _with_regions(self, op: ir.Operation) -> None:
        text = Text()
        code = shortened(text.of(op))
        operands = [self._operand(each) for each in text.taken]
        reader = self.loops.reader
        for number, result in enumerate(op.results):
            size = reader.module.size(result.type) * self.loops.places
            reader[result] = reader.pointwise(f"{code}#{number}", operands, size)
