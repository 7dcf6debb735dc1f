"""The placements in which a value of the global program is available on a rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.loops.loops import Loops, Split
from dmc.analysis.loops.splats import is_splat, is_zero
from dmc.analysis.sharding.choice import movement_bytes, nearest
from dmc.analysis.sharding.views import SOURCE, seen_split
from dmc.dialect.build import i64_array
from dmc.dialect.labels import Label, put_label
from dmc.dialect.placements import sharding_of
from dmc.mesh import Mesh
from dmc.passes.shared.splats import Splats, behind
from dmc.placement.placement import Placement
from dmc.placement.transitions import Tensor


@dataclass
class Versions:
    """Every value in its available placements; others are created by `dm.reshard`, once each.

    A reshard directly follows its operand, so that it dominates every later reader and is never repeated, not even in a
    loop; it gets the value's `labels`. Those of arguments follow each other as they are asked for. A splat is created
    again in every shape needed, next to the original. A view is made again of its operand, in the placement in which
    that is needed too: both are moved once.
    """

    mesh: Mesh
    symbol: str
    labels: Mapping[ir.Value, Label] = field(default_factory=dict[ir.Value, Label])
    shapes: dict[ir.Value, tuple[int, ...]] = field(default_factory=dict)
    placed: dict[ir.Value, dict[Placement, ir.Value]] = field(default_factory=dict)
    splats: Splats = field(default_factory=Splats)
    views: dict[ir.Value, View] = field(default_factory=dict[ir.Value, "View"])
    # The last reshard of an argument, by block.
    _last: dict[ir.Block, ir.Value] = field(default_factory=dict[ir.Block, ir.Value])

    def define(self, value: ir.Value, placement: Placement) -> None:
        """Turns `value`, still of the global type, into each rank's part of it."""
        self.shapes[value] = tuple(value.type.shape)
        self.placed[value] = {placement: value}
        local = placement.local_shape(self.mesh, value.type.shape)
        value.set_type(ir.RankedTensorType.get(local, value.type.element_type))

    def get(self, value: ir.Value, target: Placement) -> ir.Value:
        """`value` in the placement `target`, resharded from the version that moves the fewest bytes."""
        if value not in self.placed:
            return self._splat_in(value, target)
        there = self.placed[value]
        if target not in there:
            there[target] = self._seen_again(value, target) or self.kept(value, target)
        return there[target]

    def kept(self, value: ir.Value, target: Placement) -> ir.Value:
        """`value` in `target`, resharded itself even if it is a view."""
        there = self.placed[value]
        if target not in there:
            tensor = Tensor(self.mesh, self.shapes[value], element_bytes=1)
            source = nearest(there, target, tensor)
            there[target] = self._reshard(there[source], source, target, tensor.shape)
            put_label(there[target].owner.operation, self.labels.get(value, Label()))
        return there[target]

    def _seen_again(self, value: ir.Value, target: Placement) -> ir.Value | None:
        """A view of its operand resharded; None where `value` is no view, or less moves if it is resharded itself."""
        view = self.views.get(value)
        split = None if view is None else seen_split(view.loops, target, self.mesh)
        if view is None or split is None or view.operands[SOURCE] not in self.placed:
            return None
        source = view.loops.operand(SOURCE, split)
        moved = [self._moved(value, target), self._moved(view.operands[SOURCE], source)]
        return None if moved[0] == 0 or moved[0] < moved[1] else view.make(self, value, target, split)

    def _moved(self, value: ir.Value, target: Placement) -> int:
        tensor = Tensor(self.mesh, self.shapes[value], element_bytes=1)
        return movement_bytes(nearest(self.placed[value], target, tensor), target, tensor)

    def shape_of(self, value: ir.Value, target: Placement) -> ir.Value:
        """A tensor of the local type of `value` in `target`, whose elements are never read."""
        if value not in self.placed:
            return self._splat_in(value, target.complete())
        local = target.local_shape(self.mesh, self.shapes[value])
        with behind(value):
            type_ = ir.RankedTensorType.get(local, value.type.element_type)
            return ir.Operation.create("tensor.empty", results=[type_]).results[0]

    def _splat_in(self, value: ir.Value, target: Placement) -> ir.Value:
        assert is_splat(value), str(value)
        split = target.complete()
        shape = tuple(value.type.shape)
        part = self.splats.get(value, split.local_shape(self.mesh, shape))
        if not target.partial or is_zero(value):
            return part
        return self._reshard(part, split, target, shape)

    def _reshard(self, value: ir.Value, source: Placement, target: Placement, shape: Sequence[int]) -> ir.Value:
        type_ = ir.RankedTensorType.get(target.local_shape(self.mesh, shape), value.type.element_type)
        ends = {"source": sharding_of(source, self.symbol), "target": sharding_of(target, self.symbol)}
        with behind(self._last.get(value.owner, value)):
            made = dm.reshard(value, result=type_, **ends).result
        if isinstance(value.owner, ir.Block):
            self._last[value.owner] = made
        return made


@dataclass(frozen=True)
class View:
    """A view and its operands in the global program."""

    loops: Loops
    operands: tuple[ir.Value, ...]

    def make(self, versions: Versions, value: ir.Value, target: Placement, split: Split) -> ir.Value:
        """The view in another placement, next to the original `value`."""
        operands = [versions.get(self.operands[SOURCE], self.loops.operand(SOURCE, split))]
        for i, dims in enumerate(self.loops.operands):
            if i != SOURCE and dims is not None:
                operands.append(versions.shape_of(self.operands[i], self.loops.operand(i, split)))
        with behind(value):
            copy = value.owner.operation.clone()
        for i, operand in enumerate(operands):
            copy.operands[i] = operand
        local = target.local_shape(versions.mesh, versions.shapes[value])
        copy.results[0].set_type(ir.RankedTensorType.get(local, value.type.element_type))
        if copy.name == "tensor.expand_shape":
            copy.attributes["static_output_shape"] = i64_array(local)
        return copy.results[0]
