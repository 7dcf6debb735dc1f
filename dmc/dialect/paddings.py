"""How the dimensions of a tensor are padded, as attributes.

For each dimension an array of its blocks, what is there of a block, and its size with padding; empty where it has none.
"""

from __future__ import annotations

from dmc._mlir import ir
from dmc.placement.pads import Pad, Pads

# Of an argument of `@step`: its padding between steps, and where it is read otherwise, that.
PADS, USED_PADS = "dm.pads", "dm.used_pads"
# Of a composite whose loops are padded: their sizes without, by which its elements are numbered.
OWN_SIZES = "dm.own_sizes"


def pads_attribute(pads: Pads) -> ir.ArrayAttr:
    """The attribute that states this padding."""
    numbers = ([] if pad is None else [pad.blocks, pad.own, pad.wide] for pad in pads)
    return ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(each) for each in numbers])


def pads_in(attribute: ir.Attribute) -> Pads:
    """The padding that an attribute states."""
    every = (list(ir.DenseI64ArrayAttr(each)) for each in ir.ArrayAttr(attribute))
    return tuple(Pad(*each) if each else None for each in every)
