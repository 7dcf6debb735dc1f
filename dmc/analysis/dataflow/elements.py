"""Computations, element by element: independent of how loops are fused and results are grouped.

A scalar operation inside a `linalg.generic` is an operation on all iterations at once. So a generic over parallel loops
equals its scalar operations, one by one, and two generics in sequence equal one that contains the scalars of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from dmc._mlir import ir
from dmc.analysis.dataflow.reader import Module, Reader
from dmc.analysis.dataflow.text import Text, attributes_text, shortened
from dmc.analysis.kernels.cost import loop_sizes
from dmc.kernels.bits import packed_width, unpacked_width
from dmc.memo import once
from dmc.program.dataflow import Apply, Packed, Unpacked
from dmc.walk import terminator_of


def read_constant(reader: Reader, op: ir.Operation) -> None:
    """A constant; a splat is its element."""
    value = op.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr) and not value.is_splat:
        reader.opaque(op)
        return
    if isinstance(value, ir.DenseElementsAttr):
        value = value.get_splat_value()
    reader[op.results[0]] = reader.pointwise(
        f"arith.constant {once(str, value)}", (), reader.module.size(op.results[0].type)
    )


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
    """A splat tensor is its element."""
    reader[op.results[0]] = reader[op.operands[0]]


def read_empty(reader: Reader, op: ir.Operation) -> None:
    """An uninitialised tensor."""
    reader[op.results[0]] = reader.unwritten(reader.module.size(op.results[0].type))


def read_generic(reader: Reader, op: ir.Operation) -> None:
    """Each result separately; that a mask is packed or unpacked is known as a whole."""
    if _read_words(reader, op):
        return
    operands, block = list(op.operands), op.regions[0].blocks[0]
    types = tuple([operand.type for operand in operands])
    loops, yielded = _Loops.of(reader.module, op, types), list(terminator_of(block).operands)
    for index, result in enumerate(op.results):
        reader[result] = _Result(reader, op, operands, types, loops, block, yielded, [index]).read()


def _read_words(reader: Reader, op: ir.Operation) -> bool:
    """Adds a node for a packing or an unpacking; returns whether the operation is one."""
    for kind, width in ((Packed, packed_width(op)), (Unpacked, unpacked_width(op))):
        if width is not None:
            size = reader.module.size(op.results[0].type)
            reader[op.results[0]] = reader.add(kind(reader[op.operands[0]], width, size))
            return True
    return False


def _add_scalar(reader: Reader, op: ir.Operation, operands: Sequence[int], places: int) -> None:
    """An operation on scalars, over a number of iterations."""
    attributes = attributes_text(op)
    for number, result in enumerate(op.results):
        type_ = result.type
        which = f"#{number}" if number else ""
        code = f"{op.name}{which}{attributes}:{once(_element_text, type_)}"
        reader[result] = reader.pointwise(code, operands, reader.module.size(type_) * places)


def _element_text(type_: ir.Type) -> str:
    return str(getattr(type_, "element_type", type_))


def _table(reader: Reader, tensor: ir.Value) -> int:
    """A tensor of which each iteration may read any element."""
    return reader.read(f"table {tensor.type}", reader[tensor], reader.module.size(tensor.type), everywhere=True)


@dataclass(frozen=True)
class _Loops:
    """The loops of generics of one kind. places: the number of iterations. inputs: the number of inputs.

    reads: for each operand its indexing map, or "" for the identity. writes: likewise for each result. everywhere:
    which operands are a single element, the same in every iteration.
    """

    sizes: tuple[int, ...]
    places: int
    inputs: int
    is_parallel: bool
    reads: tuple[str, ...]
    everywhere: tuple[bool, ...]
    kinds: str

    @staticmethod
    def of(module: Module, op: ir.Operation, types: tuple[ir.Type, ...]) -> _Loops:
        """Generics with the same maps and types of operands are of the same kind."""
        maps, kinds = op.attributes["indexing_maps"], op.attributes["iterator_types"]
        key = maps, kinds, types, len(op.results)
        if key not in module.loops:
            module.loops[key] = _Loops._made(op, [ir.AffineMapAttr(each).value for each in maps], types, str(kinds))
        return module.loops[key]

    @staticmethod
    def _made(op: ir.Operation, maps: Sequence[ir.AffineMap], types: Sequence[ir.Type], kinds: str) -> _Loops:
        sizes = tuple(loop_sizes(op))
        reads = ["" if _is_identity(each) else f"{each} of {type_}" for each, type_ in zip(maps, types, strict=True)]
        everywhere = [not each.results and bool(read) for each, read in zip(maps, reads, strict=True)]
        inputs = len(maps) - len(op.results)
        return _Loops(sizes, prod(sizes), inputs, "reduction" not in kinds, tuple(reads), tuple(everywhere), kinds)


def _is_identity(each: ir.AffineMap) -> bool:
    """Whether an operand is read, or a result written, by the identity map."""
    return each == ir.AffineMap.get_identity(each.n_dims)


@dataclass
class _Result:
    """One result of a generic. yielded: the elements of all results. together: it, and the results whose partial values
    it depends on, by index."""

    reader: Reader
    op: ir.Operation
    operands: Sequence[ir.Value]
    types: Sequence[Any]
    loops: _Loops
    block: ir.Block
    yielded: Sequence[ir.Value]
    together: list[int]
    scalars: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])

    def read(self) -> int:
        """Adds the nodes of this result; returns its number."""
        loops, reader, index = self.loops, self.reader, self.together[0]
        yielded = self.yielded
        if loops.is_parallel and not loops.reads[loops.inputs + index]:
            return self._scalar(yielded[index])
        # More results may join this one while their elements are visited.
        done = [self._scalar(yielded[each]) for each in self.together]
        outputs = [loops.inputs + each for each in self.together]
        written = "; ".join(f"{loops.reads[i]} {once(str, self.types[i])}" for i in outputs)
        code = f"loops {loops.sizes} {loops.kinds} to {written}"
        operands = (*done, *(reader[self.operands[i]] for i in outputs))
        return reader.add(Apply(shortened(code), operands, (reader.module.size(self.op.results[index].type),)))

    def _scalar(self, value: ir.Value) -> int:
        """The value of a scalar in all iterations."""
        if value not in self.scalars:
            self.scalars[value] = self._made(value)
        return self.scalars[value]

    def _made(self, value: ir.Value) -> int:
        reader, owner = self.reader, value.owner
        if isinstance(owner, ir.Block):
            return self._argument(ir.BlockArgument(value).arg_number) if owner == self.block else reader[value]
        op = owner.operation
        if op.block != self.block:
            return reader[value]
        if op.name == "linalg.index":
            return self._apply(f"index {op.attributes['dim']} of {self.loops.sizes}", value.type)
        if op.name == "arith.constant":
            read_constant(reader, op)
        elif len(op.regions):
            self._with_regions(op)
        else:
            _add_scalar(reader, op, [self._operand(each) for each in op.operands], self.loops.places)
        self.scalars.update((result, reader[result]) for result in op.results)
        return self.scalars[value]

    def _argument(self, index: int) -> int:
        """An element of an operand; for the result of a reduction, its partial value."""
        loops, value, type_ = self.loops, self.operands[index], self.types[index]
        if index >= loops.inputs and not loops.is_parallel:
            result = index - loops.inputs
            if result not in self.together:
                self.together.append(result)
            return self._apply(f"so far {self.together.index(result)} of {loops.sizes}", type_)
        read = loops.reads[index]
        if not read or not isinstance(type_, ir.RankedTensorType):
            return self.reader[value]
        size = loops.places * self.reader.module.element_bytes(type_)
        return self.reader.read(f"{read} over {loops.sizes}", self.reader[value], size, loops.everywhere[index])

    def _operand(self, value: ir.Value) -> int:
        is_table = isinstance(value.type, ir.RankedTensorType)
        return _table(self.reader, value) if is_table else self._scalar(value)

    def _apply(self, code: str, type_: ir.Type) -> int:
        size = self.loops.places * self.reader.module.element_bytes(type_)
        return self.reader.add(Apply(code, (), (size,)))

    def _with_regions(self, op: ir.Operation) -> None:
        text = Text()
        code = shortened(text.of(op))
        operands = [self._operand(each) for each in text.taken]
        for number, result in enumerate(op.results):
            size = self.reader.module.size(result.type) * self.loops.places
            self.reader[result] = self.reader.pointwise(f"{code}#{number}", operands, size)
