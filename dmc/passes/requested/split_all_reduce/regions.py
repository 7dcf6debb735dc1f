"""Operations that can be computed from a piece of a reduction instead of the whole."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.loops.rows import is_done_in_pieces
from dmc.analysis.ranks.sameness import Axes
from dmc.dialect.plan import type_bytes
from dmc.passes.requested.split_all_reduce.pieces import Piece, Pieces
from dmc.passes.shared.report import named

VIEWS = ("tensor.expand_shape", "tensor.collapse_shape")
# The most operations after one reduction: a larger region is not the update of one tensor.
MAX_OPS = 64


@dataclass
class Region:
    """The operations that work on pieces of a reduction's result, in order.

    parts: how many ranks. rows: the values that come in pieces. kernels: the pieces of kernels among the operations.
    gathered: values that others read whole, and the first of these. obstacle: why the reduction stays, or "".
    """

    reduced: dm.AllReduceOp
    parts: int
    ops: list[ir.Operation] = field(default_factory=list[ir.Operation])
    rows: set[ir.Value] = field(default_factory=set[ir.Value])
    kernels: dict[ir.Operation, Piece] = field(default_factory=dict[ir.Operation, Piece])
    gathered: dict[ir.Value, ir.Operation] = field(default_factory=dict[ir.Value, ir.Operation])
    obstacle: str = ""


@dataclass(frozen=True)
class Regions:
    """Finds regions. every: all axes of the mesh; differing: the axes along which each value may differ between
    ranks."""

    symbols: dm.Symbols
    every: Axes
    differing: Mapping[ir.Value, Axes]
    pieces: Pieces

    def find(self, reduced: dm.AllReduceOp) -> Region:
        """The largest region after a reduction. At most `MAX_OPS` operations and their readers are visited.

        It is abandoned where more bytes would be gathered than the reduction returns.
        """
        region = Region(reduced, self.symbols.group_size(reduced.group))
        shape = reduced.result.type.shape
        if not len(shape) or shape[0] % region.parts or region.parts == 1:
            region.obstacle = f"its first dimension is not divisible by {region.parts} ranks"
            return region
        region.rows.add(reduced.result)
        room = type_bytes(reduced.result.type)
        waiting = _Waiting(reduced.operation)
        while (op := waiting.next()) is not None:
            if self._takes(region, op):
                waiting.add_readers(op if op.results[0] in region.rows else None)
            else:
                room -= sum(type_bytes(value.type) for value in _gathered(region, op))
            if room < 0 or len(region.ops) > MAX_OPS:
                region.obstacle = (
                    f"{named(op)}, which would require too large a gather" if room < 0 else "too many readers"
                )
                return region
        if region.gathered and not region.kernels:
            region.obstacle = f"{named(next(iter(region.gathered.values())))} reads it whole"
        return region

    def _takes(self, region: Region, op: ir.Operation) -> bool:
        """Adds an operation that reads pieces to the region, if it can work on them."""
        view = op.opview
        if isinstance(view, dm.AllSliceOp):
            is_own = view.dim.value == 0 and view.group == region.reduced.group
            region.ops += [op] if is_own else []
            return is_own
        if isinstance(view, dm.KernelOp):
            given = [i for i, operand in enumerate(op.operands) if operand in region.rows]
            piece = None if view.variants is not None else self.pieces.find(view.body.value, given, region.parts)
            if piece is None or not self._is_same(region, op):
                return False
            region.kernels[op] = piece
        elif op.name not in VIEWS or not is_done_in_pieces(op, region.parts):
            return False
        region.ops.append(op)
        region.rows.update(op.results)
        return True

    def _is_same(self, region: Region, op: ir.Operation) -> bool:
        """Whether all ranks of the group compute the same results: only then may others compute pieces of them."""
        axes = frozenset(dm.group_axes(region.reduced.group))
        others = (each for each in op.operands if each not in region.rows)
        return not any(self.differing.get(each, self.every) & axes for each in others)


def _gathered(region: Region, op: ir.Operation) -> list[ir.Value]:
    """The values that `op` is the first to read whole."""
    new = [each for each in dict.fromkeys(op.operands) if each in region.rows and each not in region.gathered]
    region.gathered.update(dict.fromkeys(new, op))
    return new


@dataclass(frozen=True)
class _Place:
    """The position of an operation."""

    op: ir.Operation

    def __lt__(self, other: _Place) -> bool:
        return self.op.is_before_in_block(other.op)


class _Waiting:
    """Operations of one block, each once, in block order."""

    def __init__(self, first: ir.Operation) -> None:
        self._block = first.block
        self._seen: set[ir.Operation] = set()
        self._heap: list[_Place] = []
        self.add_readers(first)

    def add_readers(self, op: ir.Operation | None) -> None:
        """Adds the readers of results of `op`."""
        for use in [] if op is None else [use for result in op.results for use in result.uses]:
            reader = use.owner.operation
            while reader.block != self._block:
                reader = reader.parent.operation
            if reader not in self._seen:
                self._seen.add(reader)
                heapq.heappush(self._heap, _Place(reader))

    def next(self) -> ir.Operation | None:
        """The first waiting operation, or None."""
        return heapq.heappop(self._heap).op if self._heap else None
