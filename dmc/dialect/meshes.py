"""Rules of meshes and channels."""

from __future__ import annotations

from dmc.dialect._dm_gen import ChannelOp, MeshOp
from dmc.dialect.rules import Violation, rule, symbol_rule
from dmc.dialect.symbols import Symbols


@rule(MeshOp)
def mesh_axes_have_sizes_and_links(op: MeshOp) -> None:
    """Axes are named, distinct, and each has a size and a link."""
    axes = [axis.value for axis in op.axes]
    if not axes:
        raise Violation("has no axis; a mesh of one rank has one axis of size 1")
    for i, axis in enumerate(axes):
        if not axis or axis in axes[:i]:
            raise Violation(f"axis '{axis}' is declared twice" if axis else f"axis {i} has no name")
    for name, values in (("sizes", op.sizes), ("links", op.links)):
        if len(values) != len(axes):
            raise Violation(f"has {len(axes)} axes but {len(values)} {name}; each axis has one of each")
    for axis, size in zip(axes, op.sizes, strict=True):
        if size < 1:
            raise Violation(f"axis '{axis}' has size {size}; it must be at least 1")


@rule(ChannelOp)
def channel_says_its_groups_once(op: ChannelOp) -> None:
    """Groups are along mesh axes, or listed by ranks."""
    if op.group is not None and op.groups is not None:
        raise Violation("has both a group along axes and listed groups; omit one")
    if op.group is None and not list(op.groups or ()):
        raise Violation("has no group; give one along axes, or list the ranks of groups")


@symbol_rule(ChannelOp)
def channel_group_exists(op: ChannelOp, symbols: Symbols) -> None:
    """The group's mesh and axes exist."""
    if op.group is not None:
        symbols.group_size(op.group)
