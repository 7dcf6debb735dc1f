"""Which dimensions of a function's tensors are one dimension, so that they change size together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

from dmc._mlir import func, ir
from dmc.analysis.loops.loops import PARALLEL, Dims, Loops
from dmc.analysis.loops.rules import captured, loops_of
from dmc.analysis.loops.splats import is_splat
from dmc.errors import DmcError
from dmc.walk import walk

# For each dimension of a tensor the number of parts; of one that grows, its size over the new one.
Cuts = tuple[int | Fraction, ...]


@dataclass(frozen=True)
class Shapes:
    """The shapes of a function's tensors by value, and of splats by operation and operand, since each use has its own.

    gathered: tensors computed from all parts of a dimension of which only one remains, such as a sum over it. indices:
    operations and their loops whose index they read. Of these and of `dimensions` of values, those that are one
    dimension have the same key.
    """

    values: Mapping[ir.Value, tuple[int, ...]]
    splats: Sequence[tuple[ir.Operation, int, tuple[int, ...]]]
    gathered: frozenset[ir.Value]
    indices: Sequence[tuple[ir.Operation, int, object]]
    dimensions: Mapping[tuple[ir.Value, int], object]

    def indexed(self, value: ir.Value, dim: int) -> list[tuple[ir.Operation, int]]:
        """Every operation that reads the index of a loop over this dimension of a value, and the loop."""
        return [(op, loop) for op, loop, key in self.indices if key == self.dimensions[value, dim]]


def shrunk(function: func.FuncOp, parts: Mapping[int, Cuts], results: Sequence[Cuts]) -> Shapes:
    """The shapes in a function whose arguments (`parts`, by index) and results are split into this many parts.

    Sizes are propagated, not meaning: a sum over a split dimension becomes a sum over the part, and an index into it an
    index into the part. Raises DmcError if an operation requires a dimension's original size.
    """
    classes = Classes()
    (block,) = function.body.blocks
    ops = [view.operation for view in block.operations]
    every = [sized(op) for op in ops[:-1] if len(op.results) and not is_splat(op.results[0])]
    for op in every:
        for _, key, dims in op.tensors:
            classes.join(op.op.results[0], key, dims, op.loops)
        _join_reads(op, classes)
    ends = [(block.arguments[index], counts) for index, counts in parts.items()]
    for value, counts in (*ends, *zip(ops[-1].operands, results, strict=True)):
        for dim, count in enumerate(counts):
            classes.cut((value, dim), count)
    splats: list[tuple[ir.Operation, int, tuple[int, ...]]] = []
    for op in every:
        for value, key, dims in op.tensors:
            classes.check(op.op, value, key, dims)
            if not isinstance(key, ir.Value):
                splats.append((op.op, key[1], classes.shape(value, key)))
    values = [*block.arguments, *(op_result for op in every for op_result in op.op.results)]
    tensors = [value for value in values if isinstance(value.type, ir.RankedTensorType)]
    shapes = {value: classes.shape(value, value) for value in tensors}
    read = ((each.op, loop) for each in every for loop in loops_with_index(each.op))
    indices = [(op, loop, classes.find((op.results[0], "loop", loop))) for op, loop in read]
    dimensions = {(value, dim): classes.find((value, dim)) for value in tensors for dim in range(value.type.rank)}
    return Shapes(shapes, splats, frozenset(_gathered(every, classes)), indices, dimensions)


def loops_with_index(op: ir.Operation) -> list[int]:
    """The loops whose index the body of an operation reads."""
    found = (loop_of(inner) for inner in walk(op)) if len(op.regions) else ()
    return sorted({loop for loop in found if loop is not None})


def loop_of(op: ir.Operation) -> int | None:
    """The loop whose index this is; None if it is not one."""
    return ir.IntegerAttr(op.attributes["dim"]).value if op.name == "linalg.index" else None


def _join_reads(sized: Sized, classes: Classes) -> None:
    """Records the dimensions that the body of an operation reads at all indices of a loop."""
    op = sized.op
    read = captured(op) if len(op.regions) else ()
    for inner, i in read:
        value, places = inner.operands[i], list(inner.operands)[1:]
        if inner.name != "tensor.extract" or i:
            continue
        for dim, place in enumerate(places):
            loop = None if isinstance(place.owner, ir.Block) else loop_of(place.owner.operation)
            if loop is not None and sized.loops.loops[loop].size == value.type.shape[dim]:
                classes.unite((value, dim), (op.results[0], "loop", loop))


def _gathered(every: Sequence[Sized], classes: Classes) -> set[ir.Value]:
    found: set[ir.Value] = set()
    for sized in every:
        op = sized.op
        reduced = [i for i, loop in enumerate(sized.loops.loops) if loop.kind != PARALLEL]
        read = list(captured(op)) if len(op.regions) else []
        is_gathered = any(classes.count((op.results[0], "loop", loop)) != 1 for loop in reduced)
        is_gathered |= any(_reads_other_parts(inner, inner.operands[i], op, classes) for inner, i in read)
        if is_gathered or any(value in found for value in (*op.operands, *(inner.operands[i] for inner, i in read))):
            found.update(op.results)
    return found


def _reads_other_parts(inner: ir.Operation, read: ir.Value, op: ir.Operation, classes: Classes) -> bool:
    """Whether `inner`, in the body of `op`, reads a split dimension at indices other than a loop's."""
    places = list(inner.operands)[1:]
    for dim in range(read.type.rank):
        count = classes.count((read, dim))
        if count != 1 and (inner.name != "tensor.extract" or _loop_parts(places[dim], op, classes) != count):
            return True
    return False


def _loop_parts(place: ir.Value, op: ir.Operation, classes: Classes) -> int | Fraction:
    """The number of parts of the loop of `op` whose index is `place`; 1 if it is not a loop index."""
    if isinstance(place.owner, ir.Block) or place.owner.name != "linalg.index":
        return 1
    return classes.count((op.results[0], "loop", ir.IntegerAttr(place.owner.attributes["dim"]).value))


# A key: a tensor itself; for a splat, the first result of its reader and the operand index.
Key = ir.Value | tuple[ir.Value, int]


@dataclass(frozen=True)
class Sized:
    """An operation with its tensors: the value, its key, and the loops over its dimensions."""

    op: ir.Operation
    loops: Loops
    tensors: list[tuple[ir.Value, Key, Dims]]


def sized(op: ir.Operation) -> Sized:
    """The tensors of an operation with loops."""
    loops = loops_of(op)
    tensors: list[tuple[ir.Value, Key, Dims]] = []
    for i, (value, dims) in enumerate(zip(op.operands, loops.operands, strict=True)):
        if dims is not None:
            tensors.append((value, (op.results[0], i) if is_splat(value) else value, dims))
    tensors += [(value, value, dims) for value, dims in zip(op.results, loops.results, strict=True)]
    return Sized(op, loops, tensors)


@dataclass
class Classes:
    """Union-find over dimensions and loops. A dimension that joins several loops is the product of their classes.

    factors: for such a class, by its root, the loops and their sizes.
    """

    parent: dict[object, object] = field(default_factory=dict)
    parts: dict[object, int | Fraction] = field(default_factory=dict)
    factors: dict[object, list[tuple[object, int]]] = field(default_factory=dict)

    def join(self, op: ir.Value, key: Key, dims: Dims, loops: Loops) -> None:
        """Records that a tensor is read or written by these loops of an operation whose first result is `op`."""
        for dim, own in enumerate(dims):
            large = [loop for loop in own if loops.loops[loop].size > 1] or list(own[:1])
            every: list[tuple[object, int]] = [((op, "loop", loop), loops.loops[loop].size) for loop in large]
            if len(every) == 1:
                self.unite((key, dim), every[0][0])
            elif every:
                self.factor((key, dim), every)

    def find(self, key: object) -> object:
        """The key that stands for a class."""
        while (parent := self.parent.get(key, key)) != key:
            self.parent[key] = key = self.parent.get(parent, parent)
        return key

    def unite(self, one: object, other: object) -> None:
        """Makes two classes one."""
        root, onto = self.find(one), self.find(other)
        if root == onto:
            return
        self.parent[root] = onto
        if root in self.factors:
            self.factor(onto, self.factors.pop(root))

    def factor(self, key: object, every: list[tuple[object, int]]) -> None:
        """Two products of the same sizes are the same product."""
        known = self.factors.setdefault(self.find(key), every)
        if known is not every and [size for _, size in known] == [size for _, size in every]:
            for (one, _), (other, _) in zip(known, every, strict=True):
                self.unite(one, other)

    def cut(self, dim: object, count: int | Fraction) -> None:
        """Records the number of parts of a dimension."""
        if count != 1:
            self.parts[self.find(dim)] = count

    def count(self, key: object) -> int | Fraction:
        """The number of parts of a class."""
        root = self.find(key)
        if root in self.parts or root not in self.factors:
            return self.parts.get(root, 1)
        return prod(self.count(factor) for factor, _ in self.factors[root])

    def check(self, op: ir.Operation, value: ir.Value, key: Key, dims: Dims) -> None:
        """Raises DmcError where an operation requires the original size of a dimension."""
        for dim, own in enumerate(dims):
            if not own and self.count((key, dim)) != 1:
                raise DmcError(
                    op, f"requires the original size of dimension {dim} of {value.type}", "do not split its results"
                )

    def shape(self, value: ir.Value, key: Key) -> tuple[int, ...]:
        """The shape of a part of a tensor."""
        return tuple(size // self.count((key, dim)) for dim, size in enumerate(value.type.shape))
