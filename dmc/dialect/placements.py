"""From the dialect's meshes and shardings to values and back."""

from __future__ import annotations

from dmc.dialect._dm_gen import MeshOp, ShardingAttr
from dmc.dialect.attributes import partial_axes, sharding, split_axes, split_blocks
from dmc.mesh import Mesh
from dmc.placement.placement import Placement


def mesh_of(op: MeshOp) -> Mesh:
    """The mesh that a `dm.mesh` declares. Raises PlanError for an axis whose name is not an identifier."""
    axes = [axis.value for axis in op.axes]
    links = {axis: link.value for axis, link in zip(axes, op.links, strict=True)}
    return Mesh(links=links, **dict(zip(axes, op.sizes, strict=True)))


def placement_of(attribute: ShardingAttr) -> Placement:
    """The placement that a sharding states."""
    return Placement(split_axes(attribute), partial_axes(attribute), split_blocks(attribute))


def sharding_of(placement: Placement, mesh: str) -> ShardingAttr:
    """The sharding over `@mesh` that states a placement."""
    words = [[placement.word(axis) for axis in axes] for axes in placement.dims]
    return sharding(mesh, words, dict(placement.partial))
