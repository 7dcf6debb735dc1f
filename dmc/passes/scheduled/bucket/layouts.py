"""How the operands of several equal movements are packed into one, and its result unpacked.

Tensors that every rank sends or receives whole are put side by side (`dm.pack`, `dm.unpack`), without copies. Where a
tensor has one piece per rank, a bucket must have the pieces of rank 0 first, then those of rank 1: its rows are the
ranks, and every member is a block of columns. A kernel copies whole tensors into or out of rows; a side with one row is
again a `dm.pack` or `dm.unpack`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from dmc import dialect as dm
from dmc._mlir import arith, ir, linalg, tensor
from dmc.dialect.buckets import bucket_layout
from dmc.dialect.plan import type_bytes
from dmc.passes.shared.kernel_functions import KernelFunctions


@dataclass(frozen=True)
class Rows:
    """The layout of a bucket: one rank's data of each member is at `offsets` of a row of `length`.

    ranks: the size of the group. Offsets and length are in elements.
    """

    element: ir.Type
    ranks: int
    offsets: Sequence[int]
    length: int

    @staticmethod
    def of(row_types: Sequence[ir.Type], ranks: int) -> Rows:
        """The layout of a bucket whose members have one row each of these tensor types."""
        offsets, length = bucket_layout([prod(row.shape) for row in row_types], row_types[0].element_type)
        return Rows(row_types[0].element_type, ranks, offsets, length)

    def flat(self, rows: int = 1) -> ir.Type:
        """The type of a buffer of this many rows."""
        return ir.RankedTensorType.get([rows * self.length], self.element)


Packer = Callable[[Rows, Sequence[ir.Value], KernelFunctions], ir.Value]
Unpacker = Callable[[Rows, ir.Value, Sequence[ir.Type], KernelFunctions], Sequence[ir.Value]]


def pack_row(rows: Rows, members: Sequence[ir.Value], functions: KernelFunctions) -> ir.Value:
    """One row: `dm.pack`."""
    return dm.pack(members, result=rows.flat(), offsets=rows.offsets).result


def unpack_row(rows: Rows, flat: ir.Value, types: Sequence[ir.Type], functions: KernelFunctions) -> Sequence[ir.Value]:
    """Members of one row: `dm.unpack`."""
    return list(dm.unpack(flat, outputs=types, offsets=rows.offsets).outputs)


def pack_rows(rows: Rows, members: Sequence[ir.Value], functions: KernelFunctions) -> ir.Value:
    """A row for each rank: a kernel that copies."""

    def body(*arguments: ir.Value) -> list[ir.Value]:
        shape = [rows.ranks, rows.length]
        zero = arith.ConstantOp(rows.element, 0 if isinstance(rows.element, ir.IntegerType) else 0.0).result
        table = linalg.fill(zero, outs=[tensor.empty(shape, rows.element)])
        for argument, offset in zip(arguments, rows.offsets, strict=True):
            columns = reshaped(argument, [rows.ranks, prod(argument.type.shape) // rows.ranks])
            sizes = columns.type.shape
            table = tensor.InsertSliceOp(columns, table, [], [], [], [0, offset], sizes, [1, 1]).result
        return [reshaped(table, [prod(shape)])]

    types = [member.type for member in members]
    return _kernel(f"pack_{rows.ranks}_rows", functions, members, types, [rows.flat(rows.ranks)], body)[0]


def unpack_rows(rows: Rows, flat: ir.Value, types: Sequence[ir.Type], functions: KernelFunctions) -> Sequence[ir.Value]:
    """Members of a row for each rank: a kernel that copies."""

    def body(*arguments: ir.Value) -> list[ir.Value]:
        table = reshaped(arguments[0], [rows.ranks, rows.length])
        members: list[ir.Value] = []
        for type_, offset in zip(types, rows.offsets, strict=True):
            sizes = [rows.ranks, prod(type_.shape) // rows.ranks]
            kind = ir.RankedTensorType.get(sizes, rows.element)
            columns = tensor.ExtractSliceOp(kind, table, [], [], [], [0, offset], sizes, [1, 1]).result
            members.append(reshaped(columns, type_.shape))
        return members

    return _kernel(f"unpack_{rows.ranks}_rows", functions, [flat], [flat.type], types, body)


@dataclass(frozen=True)
class Layout:
    """How movements of one kind share a bucket."""

    pack: Packer
    unpack: Unpacker

    @property
    def copies(self) -> bool:
        """Whether one of the two sides is a kernel."""
        return self.pack is pack_rows or self.unpack is unpack_rows

    def payload(self, rows: Rows) -> ir.Type:
        """The result type of one movement for all."""
        return rows.flat(rows.ranks if self.unpack is unpack_rows else 1)


LAYOUTS: Mapping[str, Layout] = {
    dm.AllReduceOp.OPERATION_NAME: Layout(pack_row, unpack_row),
    dm.BroadcastOp.OPERATION_NAME: Layout(pack_row, unpack_row),
    dm.PermuteOp.OPERATION_NAME: Layout(pack_row, unpack_row),
    dm.ReduceScatterOp.OPERATION_NAME: Layout(pack_rows, unpack_row),
    dm.AllGatherOp.OPERATION_NAME: Layout(pack_row, unpack_rows),
}


def reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    """The value in another shape, via a flat tensor."""
    element, sizes = value.type.element_type, list(value.type.shape)
    if len(sizes) != 1:
        flat = ir.RankedTensorType.get([prod(sizes)], element)
        value = tensor.CollapseShapeOp(flat, value, [list(range(len(sizes)))]).result
    if len(shape) != 1:
        result = ir.RankedTensorType.get(list(shape), element)
        value = tensor.ExpandShapeOp(result, value, [list(range(len(shape)))], [], list(shape)).result
    return value


def _kernel(
    stem: str,
    functions: KernelFunctions,
    operands: Sequence[ir.Value],
    inputs: Sequence[ir.Type],
    results: Sequence[ir.Type],
    body: Callable[..., list[ir.Value]],
) -> list[ir.Value]:
    name = functions.get(stem, inputs, results, "other", body)
    traffic = sum(map(type_bytes, (*inputs, *results)))
    return list(dm.kernel(operands, outputs=results, body=name, flops=0, bytes=traffic).outputs)
