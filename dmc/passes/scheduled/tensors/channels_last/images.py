"""Where each value lies: in which tensor, and in which order of its dimensions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dmc._mlir import arith, ir, linalg, tensor
from dmc.analysis.kernels.layouts import permutation
from dmc.analysis.loops.splats import is_splat
from dmc.passes.scheduled.tensors.channels_last.orders import Order, channels_last, identity, is_image, permuted, turned
from dmc.passes.shared.splats import Splats

TRANSPOSE = "linalg.transpose"


class Lying(NamedTuple):
    """A value's tensor, whose dimension i is dimension `order[i]` of the value."""

    tensor: ir.Value
    order: Order


@dataclass
class Images:
    """moved: values whose tensor is another one. state: images that the step is given, and what is made of them alone,
    as of parameters and momenta.
    """

    moved: dict[ir.Value, Lying] = field(default_factory=dict)
    state: set[ir.Value] = field(default_factory=set)
    made: dict[tuple[ir.Value, Order], ir.Value] = field(default_factory=dict)
    splats: Splats = field(default_factory=Splats)

    def of(self, value: ir.Value) -> Lying:
        """Where a value lies now."""
        return self.moved.get(value) or Lying(value, identity(len(value.type.shape)))

    def last(self, value: ir.Value) -> Lying:
        """Where a value lies, with its channels last: it is moved, at the insertion point, unless it has been."""
        if value in self.moved or not is_image(value.type):
            return self.of(value)
        if not isinstance(value.owner, ir.Block) and value.owner.name == TRANSPOSE:
            source, order = self.last(value.owner.operation.operands[0])
            return Lying(source, turned(order, permutation(value.owner.operation)))
        order = channels_last(len(value.type.shape))
        return Lying(self.laid(value, order), order)

    def stays(self, op: ir.Operation) -> None:
        """Notes that an operation has not moved."""
        read = [value for value in op.operands if is_image(value.type) and not is_splat(value)]
        if read and all(value in self.state for value in read):
            self.state.update(op.results)

    def laid(self, value: ir.Value, order: Order) -> ir.Value:
        """The tensor of a value in this order, at the insertion point."""
        whole, own = self.of(value)
        if own == order:
            return whole
        if is_splat(whole):
            return self.splats.get(whole, permuted(value.type, order).shape)
        if (value, order) not in self.made:
            kind = permuted(value.type, order)
            out = tensor.empty(list(kind.shape), kind.element_type)
            places = [own.index(dim) for dim in order]
            self.made[value, order] = linalg.transpose(whole, outs=[out], permutation=places).results[0]
        return self.made[value, order]

    def zeros(self, type_: ir.RankedTensorType, order: Order) -> ir.Value:
        """Zeros of a value's type in this order, at the insertion point."""
        kind = permuted(type_, order)
        zero = arith.constant(kind.element_type, 0.0)
        return linalg.fill(zero, outs=[tensor.empty(list(kind.shape), kind.element_type)])

    def plain(self, value: ir.Value) -> ir.Value:
        """The tensor of a value in the order of its dimensions, at the insertion point."""
        return self.laid(value, identity(len(value.type.shape)))
