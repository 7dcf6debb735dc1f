"""Views: transpositions and reshapes. They move nothing in any placement, so a rank views whatever part it has."""

from __future__ import annotations

from dmc._mlir import ir
from dmc.analysis.loops.loops import Dims, Loops, Split
from dmc.mesh import Mesh
from dmc.placement.placement import Placement

_VIEWS = ("linalg.transpose", "tensor.collapse_shape", "tensor.expand_shape")
SOURCE = 0


def is_view(op: ir.Operation) -> bool:
    """Whether an operation views its first operand."""
    return op.name in _VIEWS


def seen(loops: Loops, source: Placement, mesh: Mesh) -> Placement | None:
    """The placement in which a view is there if its operand is in `source`; None if no placement says it."""
    dims = loops.operands[SOURCE]
    assert dims is not None
    split = _split(loops, dims, source, mesh)
    return loops.result(0, split) if split is not None and loops.operand(SOURCE, split) == source else None


def seen_split(loops: Loops, target: Placement, mesh: Mesh) -> Split | None:
    """The split that makes a view in `target`; None if it cannot be made so."""
    split = _split(loops, loops.results[0], target, mesh)
    return split if split is not None and loops.result(0, split) == target else None


def _split(loops: Loops, dims: Dims, placement: Placement, mesh: Mesh) -> Split | None:
    split = loops.unsplit(mesh)
    for axis, kind in placement.partial:
        split = split.handing_on(axis, kind)
    for axis in (axis for axes in placement.dims for axis in axes):
        further = loops.extended(split, dims, placement, axis)
        if further is None:
            return None
        split = further
    return split if loops.fits(split) else None
