"""The kernel that computes one rank's piece of another kernel's results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dmc._mlir import func, ir
from dmc.analysis.commands.jobs import KIND
from dmc.analysis.loops.rows import Rows, is_filler, rows_in
from dmc.passes.shared.kernel_functions import KernelFunctions
from dmc.walk import walk


@dataclass(frozen=True)
class Piece:
    """The values of a function that come in pieces: its arguments `given`, by index, all of its results, and `rows` in
    between."""

    function: func.FuncOp
    rows: Rows
    given: frozenset[int]


class Pieces:
    """Finds and builds pieces of a module's functions, each once."""

    def __init__(self, functions: Mapping[str, func.FuncOp], added: KernelFunctions) -> None:
        self._functions = functions
        self._added = added
        self._known: dict[Any, Piece | None] = {}

    def find(self, name: str, given: Collection[int], parts: int) -> Piece | None:
        """How `name` computes a piece of all its results from pieces of the arguments `given`; None if it cannot."""
        key = (name, frozenset(given), parts)
        if key not in self._known:
            self._known[key] = self._find(self._functions[name], given, parts)
        return self._known[key]

    def build(self, piece: Piece) -> str:
        """The function that computes a piece."""
        block = piece.function.entry_block
        *body, terminator = [view.operation for view in block.operations]
        inputs = [_type(value, piece) for value in block.arguments]
        results = [_type(value, piece) for value in terminator.operands]

        def build(*arguments: ir.Value) -> list[ir.Value]:
            builder = _Builder(piece, dict(zip(block.arguments, arguments, strict=True)))
            for op in body:
                builder.add(op)
            return [builder.value(value, True) for value in terminator.operands]

        kind = piece.function.operation.attributes.get(KIND)
        stem = f"{piece.function.name.value}_piece"
        return self._added.get(stem, inputs, results, "other" if kind is None else kind.value, build)

    def _find(self, function: func.FuncOp, given: Collection[int], parts: int) -> Piece | None:
        block = function.entry_block
        rows = rows_in(block, given, parts)
        *_, terminator = block.operations
        if rows is None or any(value not in rows.values for value in terminator.operands):
            return None
        return Piece(function, rows, frozenset(i for i, each in enumerate(block.arguments) if each in rows.values))


@dataclass(frozen=True)
class _Builder:
    """Builds a body: `new` maps each value to its replacement, and a filler that is also read whole to its piece."""

    piece: Piece
    new: dict[Any, ir.Value]

    def value(self, value: ir.Value, is_piece: bool) -> ir.Value:
        """The replacement of a value of the old body."""
        if isinstance(value.owner, ir.Block) or not is_filler(value.owner.operation):
            return self.new[value]
        key = (value, is_piece)
        if key not in self.new:
            self.new[key] = self._filler(value.owner.operation, is_piece)
        return self.new[key]

    def add(self, op: ir.Operation) -> None:
        """The same operation on pieces; fillers are created where they are read."""
        if is_filler(op):
            return
        rows = self.piece.rows
        operands = [self.value(each, rows.reads_piece(op, i)) for i, each in enumerate(op.operands)]
        copy = op.clone()
        for i, operand in enumerate(operands):
            copy.operands[i] = operand
        for inner in list(walk(copy))[1:]:
            self._rewire(inner)
        for old, new in zip(op.results, copy.results, strict=True):
            new.set_type(_type(old, self.piece))
            self.new[old] = new
        if op.name == "tensor.expand_shape":
            copy.attributes["static_output_shape"] = ir.DenseI64ArrayAttr.get(copy.results[0].type.shape)

    def _rewire(self, inner: ir.Operation) -> None:
        """An operation in a region may read values from outside it, but never pieces of them."""
        outside = self.piece.function.entry_block
        for i, operand in enumerate(inner.operands):
            block = operand.owner if isinstance(operand.owner, ir.Block) else operand.owner.operation.block
            if block == outside:
                inner.operands[i] = self.value(operand, False)

    def _filler(self, op: ir.Operation, is_piece: bool) -> ir.Value:
        copy = op.clone()
        if is_piece:
            type_ = _type(op.results[0], self.piece)
            if "value" in op.attributes:
                splat = op.attributes["value"].get_splat_value()
                copy.attributes["value"] = ir.DenseElementsAttr.get_splat(type_, splat)
            copy.results[0].set_type(type_)
        return copy.results[0]


def _type(value: ir.Value, piece: Piece) -> ir.Type:
    """The type of a value, or of its piece where it comes in pieces."""
    if value not in piece.rows.values:
        return value.type
    first, *others = value.type.shape
    return ir.RankedTensorType.get([first // piece.rows.parts, *others], value.type.element_type)
