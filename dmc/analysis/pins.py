"""Pins: how single values must lie along some axes of the mesh, whatever they are along others.

The attribute `dm.pin` has one entry for each tensor that an operation gives: a sharding, of which only the axes count
that it names, or `unit` where there is no pin.
"""

from __future__ import annotations

from collections.abc import Mapping

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.dialect.placements import placement_of, sharding_of
from dmc.placement.placement import Placement
from dmc.walk import walk

PIN = "dm.pin"


def state_pins(pins: Mapping[ir.Value, Placement], mesh: str) -> None:
    """Writes pins of results of operations as attributes; `mesh` is the symbol."""
    for first in dict.fromkeys(value.owner.results[0] for value in pins):
        op = first.owner
        entries = [
            sharding_of(pins[value], mesh) if value in pins else ir.UnitAttr.get(op.context) for value in _tensors(op)
        ]
        op.attributes[PIN] = ir.ArrayAttr.get(entries, op.context)


def pins_in(function: func.FuncOp) -> dict[ir.Value, Placement]:
    """The pins that attributes state, by value."""
    pins: dict[ir.Value, Placement] = {}
    for op in walk(function):
        if PIN in op.attributes:
            stated = zip(_tensors(op), op.attributes[PIN], strict=True)
            pins |= {value: placement_of(each) for value, each in stated if isinstance(each, dm.ShardingAttr)}
    return pins


def pinned(made: Placement, pin: Placement) -> Placement:
    """`made`, as `pin` has it along the axes of `pin`."""
    kept = made.without(pin.axes)
    for dim, axes in enumerate(pin.dims):
        for axis in axes:
            kept = kept.split(dim, [axis], pin.blocks_of(axis))
    return kept


def _tensors(op: ir.Operation) -> list[ir.Value]:
    return [value for value in op.results if isinstance(value.type, ir.RankedTensorType)]
