"""Sums over ranks that share their movements."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.kernels.graph import outer_reads
from dmc.dialect.buckets import bucket_layout
from dmc.dialect.labels import Label, label_of, put_label
from dmc.dialect.plan import type_bytes

# What sums must have in common.
_SAME = ("group", "reduction", "accumulate")


@dataclass
class _Bucket:
    """sums: in order. tensors: their names. readers: of their results, directly or not, in order. between: how many of
    them stand before the last sum. bytes: of all sums."""

    sums: dict[ir.Operation, None] = field(default_factory=dict)
    tensors: set[str] = field(default_factory=set)
    readers: dict[ir.Operation, None] = field(default_factory=dict)
    between: int = 0
    bytes: int = 0

    def add(self, op: ir.Operation) -> None:
        """Takes a sum that stands behind all readers."""
        self.sums[op] = None
        self.tensors.add(label_of(op).tensor)
        self.between = len(self.readers)
        self.bytes += type_bytes(op.operands[0].type)

    def fits(self, op: ir.Operation, limit: int) -> bool:
        """Whether a sum is like the others, and all have no more than `limit` bytes.

        Each is of a tensor with a name of its own: what has none is an activation, which is read soon.
        """
        first, given, name = next(iter(self.sums)), op.operands[0].type, label_of(op).tensor
        is_like = all(first.attributes[each] == op.attributes[each] for each in _SAME)
        is_like = is_like and first.operands[0].type.element_type == given.element_type
        is_named = "" not in {name, *self.tensors} and name not in self.tensors
        return is_like and is_named and self.bytes + type_bytes(given) <= limit

    def is_read_by(self, op: ir.Operation) -> bool:
        """Whether an operation reads what a sum gives, directly or through others."""
        makers = [value.owner for value in outer_reads(op) if not isinstance(value.owner, ir.Block)]
        return any(maker in self.sums or maker in self.readers for maker in makers)


def bucketed(block: ir.Block, sums: Collection[ir.Operation], limit: int) -> Iterator[ir.Operation]:
    """Makes one sum over ranks of consecutive ones of up to `limit` bytes; yields what has become of `sums`.

    `%a = all_reduce(%x); %b = all_reduce(%y)` becomes `%a, %b = unpack(all_reduce(pack(%x, %y)))`, in place of the last
    one, if none reads what another gives, and each is of a tensor that its label names. What reads `%a` before that
    moves behind it. Linear in the number of operations.
    """
    bucket = _Bucket()
    for op in [view.operation for view in block.operations]:
        is_reader = bucket.is_read_by(op)
        if op in sums:
            if bucket.sums and (is_reader or not bucket.fits(op, limit)):
                yield _merged(bucket)
                bucket = _Bucket()
            bucket.add(op)
        elif is_reader:
            bucket.readers[op] = None
    if bucket.sums:
        yield _merged(bucket)


def _merged(bucket: _Bucket) -> ir.Operation:
    """One sum for all of a bucket."""
    *others, last = sums = list(bucket.sums)
    if not others:
        return last
    given = [op.operands[0] for op in sums]
    element = given[0].type.element_type
    offsets, length = bucket_layout([prod(value.type.shape) for value in given], element)
    with ir.Location.fused([op.location for op in sums]), ir.InsertionPoint(last):
        flat = ir.RankedTensorType.get([length], element)
        packed = dm.pack(given, result=flat, offsets=offsets).result
        made = ir.Operation.create(last.name, [flat], [packed], {name: last.attributes[name] for name in _SAME})
        put_label(made.operation, reduce(Label.joined, map(label_of, sums)))
        unpacked = dm.unpack(made.results[0], outputs=[op.results[0].type for op in sums], offsets=offsets)
    for reader in list(bucket.readers)[: bucket.between]:
        reader.move_before(last)
    for op, value in zip(sums, unpacked.outputs, strict=True):
        op.results[0].replace_all_uses_with(value)
        op.erase()
    return made.operation
