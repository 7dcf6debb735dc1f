"""The paddings in which a value is available."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dmc._mlir import ir
from dmc.analysis.loops.rules import loops_of
from dmc.analysis.loops.splats import is_splat
from dmc.analysis.sharding.decisions import key_of
from dmc.analysis.sharding.pins import PIN
from dmc.passes.placed.pad_uneven.build import converted, filled
from dmc.passes.placed.pad_uneven.flow import Flow
from dmc.passes.placed.pad_uneven.work import Work, inner_of, work_of
from dmc.passes.shared.splats import Splats, behind
from dmc.placement.pads import Pads, padded_shape


@dataclass
class Versions:
    """Every value in the paddings that are asked for, each made once, right behind the value.

    shapes: of values that have been given padding, before. What is read without padding is cut; what is read with
    padding that it does not have is computed with it, if that takes nothing else, or gets zeros. apply: makes a copy of
    an operation compute with padding; it takes the shapes of the results without.
    """

    flow: Flow
    apply: Callable[[ir.Operation, Work, Sequence[Sequence[int]]], None]
    shapes: dict[ir.Value, tuple[int, ...]] = field(default_factory=dict[ir.Value, tuple[int, ...]])
    # The padding that a value has by now, and other versions of it.
    own: dict[ir.Value, Pads] = field(default_factory=dict[ir.Value, Pads])
    made: dict[tuple[ir.Value, Pads], ir.Value] = field(default_factory=dict[tuple[ir.Value, Pads], ir.Value])
    splats: Splats = field(default_factory=Splats)

    def define(self, value: ir.Value, pads: Pads) -> None:
        """Gives a value its padding."""
        self.shapes[value], self.own[value] = tuple(value.type.shape), pads
        value.set_type(ir.RankedTensorType.get(padded_shape(value.type.shape, pads), value.type.element_type))

    def shape(self, value: ir.Value) -> tuple[int, ...]:
        """The shape of a value without padding."""
        return self.shapes.get(value, tuple(value.type.shape))

    def get(self, value: ir.Value, pads: Pads) -> ir.Value:
        """A value with this padding."""
        if is_splat(value):
            return self.splats.get(value, padded_shape(value.type.shape, pads))
        own = self.own.get(value, (None,) * len(pads))
        if pads == own and (value, pads) not in self.made:
            return value
        if (value, pads) not in self.made:
            self.made[value, pads] = self._made(value, own, pads)
        return self.made[value, pads]

    def zeroed(self, value: ir.Value, pads: Pads, dims: tuple[int, ...], number: float = 0) -> ir.Value:
        """A padded value with a number in the padding of these dimensions."""
        given = self.get(value, pads)
        with behind(given):
            return filled(given, tuple(pad if dim in dims else None for dim, pad in enumerate(pads)), number)

    def zero(self, value: ir.Value, pads: Pads, dims: frozenset[int]) -> None:
        """Sets the padding of these dimensions to zero for all who read a value with this padding."""
        self.made[value, pads] = self.zeroed(value, pads, tuple(sorted(dims)))

    def like(self, value: ir.Value, pads: Pads) -> ir.Value:
        """A tensor of a value's type with padding, whose elements are never read."""
        if is_splat(value):
            return self.get(value, pads)
        with behind(value):
            kind = ir.RankedTensorType.get(padded_shape(self.shape(value), pads), value.type.element_type)
            return ir.Operation.create("tensor.empty", results=[kind]).results[0]

    def _made(self, value: ir.Value, own: Pads, pads: Pads) -> ir.Value:
        new = [dim for dim, (old, pad) in enumerate(zip(own, pads, strict=True)) if old != pad]
        is_free = all(
            own[dim] is None and (pad := pads[dim]) is not None and self.flow.free(value, dim, pad) is not None
            for dim in new
        )
        if is_free and not isinstance(value.owner, ir.Block):
            return self._computed(value, new, pads)
        with behind(self.made.get((value, own), value)):
            return converted(self.made.get((value, own), value), own, pads)

    def _computed(self, value: ir.Value, dims: list[int], pads: Pads) -> ir.Value:
        """The operation that computes a value once more, with padding along further dimensions."""
        op = value.owner.operation
        before = self.flow.works.get(key_of(op))
        loops = loops_of(op) if before is None else before.loops
        place = list(op.results).index(value)
        further = [inner_of(loops.results[place][dim], pad, loops) for dim in dims if (pad := pads[dim]) is not None]
        given = [operand for operand, _ in before.operands] if before is not None else list(op.operands)
        own = before or Work(loops, {}, (), ())
        work = work_of(given, loops, {**own.pads, **dict(each for each in further if each is not None)})
        with behind(op.results[len(op.results) - 1]):
            copy = op.clone()
        if PIN in copy.attributes:
            del copy.attributes[PIN]
        shapes = [self.shape(result) for result in op.results]
        self.apply(copy, replace(work, zeroed=own.zeroed, filled=own.filled), shapes)
        return copy.results[place]
