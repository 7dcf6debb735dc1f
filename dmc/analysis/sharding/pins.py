"""Pins: required placements of single values along some mesh axes, whatever they are along others.

The attribute `dm.pin` has one entry per result of an operation: `{at = #dm.sharding<…>, along = ["tp"], brought =
["tp"]}`, or `unit` where there is no pin. Along the axes `along` the value has the placement `at`; `brought` are those
of them that readers may not request, because the value is resharded there, however it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dmc._mlir import func, ir
from dmc.dialect.paddings import pads_attribute, pads_in
from dmc.dialect.placements import placement_of, sharding_of
from dmc.placement.pads import Pads
from dmc.placement.placement import Placement
from dmc.walk import walk

PIN = "dm.pin"


@dataclass(frozen=True)
class Pin:
    """`at` holds along the axes `along`; of these, `brought` do not affect how the value is computed.

    pads: the padding without which the parts would not be equal; none for a value that already has it.
    """

    at: Placement
    along: tuple[str, ...]
    brought: tuple[str, ...]
    pads: Pads = ()

    def of(self, made: Placement) -> Placement:
        """The placement in which a value computed in this placement is kept."""
        kept = made.without(self.along)
        for dim, axes in enumerate(self.at.dims):
            for axis in axes:
                kept = kept.split(dim, [axis], self.at.blocks_of(axis))
        return kept

    def and_also(self, other: Pin) -> Pin:
        """Both pins; where both constrain an axis, the other takes precedence."""
        along, brought = (
            tuple(dict.fromkeys(pair)) for pair in ((*self.along, *other.along), (*self.brought, *other.brought))
        )
        none = (None,) * len(self.at.dims)
        pads = (after or before for before, after in zip(self.pads or none, other.pads or none, strict=True))
        return Pin(other.of(self.at), along, brought, tuple(pads))


def state_pins(pins: Mapping[ir.Value, Pin], mesh: str) -> None:
    """Writes pins of results of operations as attributes; `mesh` is the symbol."""
    for first in dict.fromkeys(value.owner.results[0] for value in pins):
        op = first.owner
        with op.context:
            entries = [_attribute(pins[value], mesh) if value in pins else ir.UnitAttr.get() for value in _tensors(op)]
            op.attributes[PIN] = ir.ArrayAttr.get(entries)


def pins_in(function: func.FuncOp) -> dict[ir.Value, Pin]:
    """The pins that attributes state, by value."""
    pins: dict[ir.Value, Pin] = {}
    for op in walk(function):
        if PIN in op.attributes:
            stated = zip(_tensors(op), op.attributes[PIN], strict=True)
            pins |= {value: _pin(each) for value, each in stated if isinstance(each, ir.DictAttr)}
    return pins


def _attribute(pin: Pin, mesh: str) -> ir.DictAttr:
    stated = {"at": sharding_of(pin.at, mesh), "along": _strings(pin.along), "brought": _strings(pin.brought)}
    return ir.DictAttr.get({**stated, "pads": pads_attribute(pin.pads)} if any(pin.pads) else stated)


def _pin(attribute: ir.DictAttr) -> Pin:
    along, brought = (tuple(ir.StringAttr(axis).value for axis in attribute[name]) for name in ("along", "brought"))
    pads = pads_in(attribute["pads"]) if "pads" in attribute else ()
    return Pin(placement_of(attribute["at"]), along, brought, pads)


def _strings(words: Sequence[str]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(word) for word in words])


def _tensors(op: ir.Operation) -> list[ir.Value]:
    return [value for value in op.results if isinstance(value.type, ir.RankedTensorType)]
