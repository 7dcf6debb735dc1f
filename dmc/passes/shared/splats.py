"""Splats in other shapes: a splat tensor is created again for users that need another size."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from dmc._mlir import ir


@dataclass
class Splats:
    """Splats by original value and shape; each is next to the original."""

    made: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = field(default_factory=dict)

    def get(self, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        """The splat `value` (`is_splat`) in this shape."""
        if list(value.type.shape) == list(shape):
            return value
        key = (value, tuple(shape))
        if key not in self.made:
            type_ = ir.RankedTensorType.get(list(shape), value.type.element_type)
            self.made[key] = self._make(value.owner.operation, type_)
        return self.made[key]

    def _make(self, op: ir.Operation, type_: ir.RankedTensorType) -> ir.Value:
        if op.name == "arith.constant":
            element = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
            attributes = {"value": ir.DenseElementsAttr.get_splat(type_, element)}
            with behind(op.results[0]):
                return ir.Operation.create(op.name, results=[type_], attributes=attributes).results[0]
        output = self.get(op.operands[1], type_.shape) if op.name == "linalg.fill" else None
        with behind(op.results[0]):
            copy = op.clone()
        copy.results[0].set_type(type_)
        if output is not None:
            copy.operands[1] = output
        return copy.results[0]


@contextmanager
def behind(value: ir.Value) -> Generator[None]:
    """Right after the operation that produces `value`, or at the start of the block whose argument it is."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        point, location = ir.InsertionPoint.at_block_begin(owner), owner.owner.operation.location
    else:
        point, location = ir.InsertionPoint.after(owner.operation), owner.operation.location
    with location, point:
        yield
