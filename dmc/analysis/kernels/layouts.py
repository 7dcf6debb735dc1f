"""Tensors as strided views of others: through slices, reshapes and transpositions.

Sizes, strides and offsets are in elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from dmc._mlir import ir
from dmc.analysis.loops.splats import is_zero

_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class Layout:
    """A strided view: the offset of its first element, and its dimensions."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def dense(sizes: Sequence[int]) -> Layout:
        """A whole row-major tensor."""
        return Layout(0, tuple(sizes), _row_major(sizes))

    @property
    def is_dense(self) -> bool:
        """Whether the elements are contiguous; the stride of a dimension of size 1 does not matter."""
        pairs = zip(self.sizes, self.strides, _row_major(self.sizes), strict=True)
        return all(size == 1 or stride == dense for size, stride, dense in pairs)

    @property
    def span(self) -> int:
        """The extent in elements, from the first to past the last."""
        return 1 + sum((size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True))

    def permuted(self, order: Sequence[int]) -> Layout:
        """Permutes dimensions: dimension `i` was `order[i]`."""
        return replace(self, sizes=tuple(self.sizes[i] for i in order), strides=tuple(self.strides[i] for i in order))

    def part(self, offsets: Sequence[int], sizes: Sequence[int]) -> Layout:
        """A slice with these offsets and sizes."""
        start = sum(offset * stride for offset, stride in zip(offsets, self.strides, strict=True))
        return Layout(self.offset + start, tuple(sizes), self.strides)

    def reshaped(self, sizes: Sequence[int]) -> Layout | None:
        """A reshape to another shape; None if no strides express it."""
        runs, strides = self._runs(), list[int]()
        for size in reversed(sizes):
            count, stride = runs.pop() if runs else (1, 1)
            strides.append(stride)
            if count % size:
                return None
            if count > size:
                runs.append((count // size, stride * size))
        return Layout(self.offset, tuple(sizes), tuple(reversed(strides)))

    def _runs(self) -> list[tuple[int, int]]:
        """Sizes and strides, with contiguous neighbouring dimensions merged."""
        runs: list[tuple[int, int]] = []
        for size, stride in zip(self.sizes, self.strides, strict=True):
            if runs and runs[-1][1] == size * stride:
                runs[-1] = (runs[-1][0] * size, stride)
            elif size != 1:
                runs.append((size, stride))
        return runs


def seen_through(op: ir.Operation, layout: Layout) -> Layout | None:
    """The layout of the result of `op`, given its operand's; None if the result must be copied."""
    rule = _FORWARD.get(op.name)
    return None if rule is None else rule(op, layout)


def written_through(op: ir.Operation, index: int, layout: Layout) -> Layout | None:
    """The layout of operand `index` of `op` for a given result layout; None if no strides express it.

    An operand padded with zeros at its ends has the layout of the whole result, with larger sizes.
    """
    rule = _BACKWARD.get(op.name)
    return None if rule is None else rule(op, index, layout)


def permutation(op: ir.Operation) -> list[int]:
    """For a `linalg.transpose`: the operand dimension of each result dimension."""
    return list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))


def _slice(op: ir.Operation, layout: Layout) -> Layout | None:
    offsets, sizes, strides = (list(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides"))
    if _DYNAMIC in (*offsets, *sizes) or any(stride != 1 for stride in strides):
        return None
    # A slice may drop dimensions of size 1.
    return layout.part(offsets, sizes).reshaped(_shape(op.results[0]))


def _padded(op: ir.Operation, _index: int, layout: Layout) -> Layout | None:
    """The result's layout: the writer of the operand also writes the zeros after it."""
    *_, terminator = op.regions[0].blocks[0].operations
    is_behind = all(low == 0 for low in op.attributes["static_low"])
    return layout if is_behind and is_zero(terminator.operation.operands[0]) else None


def _part_of_concat(op: ir.Operation, index: int, layout: Layout) -> Layout:
    dim, sizes = ir.IntegerAttr(op.attributes["dim"]).value, [_shape(operand) for operand in op.operands]
    before = sum(shape[dim] for shape in sizes[:index])
    return layout.part([before if i == dim else 0 for i in range(len(layout.sizes))], sizes[index])


def inverse(order: Sequence[int]) -> list[int]:
    """The inverse permutation of `order`."""
    return sorted(range(len(order)), key=order.__getitem__)


def _shape(value: ir.Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(sizes[dim + 1 :]) for dim in range(len(sizes)))


_FORWARD: dict[str, Callable[[ir.Operation, Layout], Layout | None]] = {
    "tensor.expand_shape": lambda op, layout: layout.reshaped(_shape(op.results[0])),
    "tensor.collapse_shape": lambda op, layout: layout.reshaped(_shape(op.results[0])),
    "tensor.extract_slice": _slice,
    "linalg.transpose": lambda op, layout: layout.permuted(permutation(op)),
}
_BACKWARD: dict[str, Callable[[ir.Operation, int, Layout], Layout | None]] = {
    "tensor.expand_shape": lambda op, index, layout: layout.reshaped(_shape(op.operands[index])),
    "tensor.collapse_shape": lambda op, index, layout: layout.reshaped(_shape(op.operands[index])),
    "tensor.concat": _part_of_concat,
    "tensor.pad": _padded,
    "linalg.transpose": lambda op, index, layout: layout.permuted(inverse(permutation(op))),
}
