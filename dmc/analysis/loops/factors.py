"""What a dimension is made of: the heads and their elements side by side in the columns of a weight."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from dmc._mlir import func, ir
from dmc.analysis.loops.loops import FIXED
from dmc.analysis.loops.shape_classes import Classes, sized
from dmc.analysis.loops.splats import is_splat
from dmc.dialect.kinds import traits_of
from dmc.walk import terminator_of

_LOOP = "scf.for"


class Factors:
    """The dimensions of a function's values as products, major first, as reshapes and slices take them apart."""

    def __init__(self, function: func.FuncOp) -> None:
        self._classes = Classes()
        # Those that no rank has a part of: the elements of a head, and which one of several pieces.
        self._whole: set[object] = set()
        for op in _ops(function.entry_block):
            if op.name == _LOOP:
                self._carry(op)
            else:
                self._see(op)
        self._roots = {self._classes.find(key) for key in self._whole}

    def of(self, value: ir.Value, dim: int) -> tuple[tuple[int, bool], ...]:
        """The sizes of the factors of a dimension, and whether ranks may have parts of each."""
        return tuple(self._leaves((value, dim), value.type.shape[dim]))

    def _leaves(self, key: object, size: int) -> Iterator[tuple[int, bool]]:
        root = self._classes.find(key)
        factors = self._classes.factors.get(root, [])
        if root in self._roots or not factors or prod(each for _, each in factors) != size:
            yield size, root not in self._roots
            return
        for factor, each in factors:
            yield from self._leaves(factor, each)

    def _see(self, op: ir.Operation) -> None:
        own = sized(op)
        for _, key, dims in own.tensors:
            self._classes.join(op.results[0], key, dims, own.loops)
        fixed = (i for i, loop in enumerate(own.loops.loops) if loop.kind == FIXED)
        self._whole.update((op.results[0], "loop", i) for i in fixed)
        if traits_of(op).queries is not None:
            for value in op.operands:
                if isinstance(value.type, ir.RankedTensorType) and value.type.rank > 2 and not is_splat(value):
                    self._whole.add((value, value.type.rank - 1))

    def _carry(self, op: ir.Operation) -> None:
        (block,) = op.regions[0].blocks
        returned = terminator_of(block).operands
        every = zip(list(op.operands)[3:], list(block.arguments)[1:], returned, op.results, strict=True)
        for init, argument, new, result in every:
            for dim in range(result.type.rank if isinstance(result.type, ir.RankedTensorType) else 0):
                for value in (argument, new) if is_splat(init) else (init, argument, new):
                    self._classes.unite((value, dim), (result, dim))


def _ops(block: ir.Block) -> Iterator[ir.Operation]:
    for op in [view.operation for view in block.operations][:-1]:
        if op.name == _LOOP:
            yield from _ops(op.regions[0].blocks[0])
            yield op
        elif len(op.results) and not is_splat(op.results[0]):
            yield op
