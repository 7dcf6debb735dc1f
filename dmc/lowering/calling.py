"""Form placed → the calling convention of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.dialect.paddings import PADS, pads_in
from dmc.dialect.placements import mesh_of, placement_of
from dmc.dialect.transfers import SHARDING
from dmc.placement.pads import Pads
from dmc.placement.placement import Placement
from dmc.program.signature import Paddings, Signature, Splits
from dmc.step_function import arguments, find_step, results


def with_splits(signature: Signature, module: ir.Module) -> Signature:
    """`signature` with the mesh of `module`, in form placed, and the placements and padding of arguments and
    results of its `@step`.

    Unchanged for a module without a mesh.
    """
    meshes = [mesh_of(op) for op in module.body.operations if isinstance(op, dm.MeshOp)]
    if not meshes:
        return signature
    step = find_step(module)
    splits: dict[str, Splits] = {}
    paddings: dict[str, Paddings] = {}
    for ports, attributes in ((arguments(step), "arg_attrs"), (results(step), "res_attrs")):
        for port, own in zip(ports, step.operation.attributes[attributes], strict=True):
            placement = placement_of(own[SHARDING])
            if placement.axes:
                splits[port.name] = _splits(placement)
            if PADS in own:
                paddings[port.name] = _paddings(pads_in(own[PADS]), placement.whole_shape(meshes[0], port.type.shape))
    return replace(signature, mesh=dict(meshes[0].items()), splits=splits, paddings=paddings)


def _splits(placement: Placement) -> Splits:
    return tuple(tuple((axis, placement.blocks_of(axis)) for axis in axes) for axes in placement.dims)


def _paddings(pads: Pads, shape: Sequence[int]) -> Paddings:
    return tuple((1, size) if pad is None else (pad.blocks, pad.wide) for pad, size in zip(pads, shape, strict=True))
