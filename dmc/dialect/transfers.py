"""Rules of copies and reshards."""

from __future__ import annotations

from dmc.dialect._dm_gen import CopyOp, ReshardOp, ShardingAttr
from dmc.dialect.attributes import partial_axes, split_axes
from dmc.dialect.rules import Violation, rule, symbol_rule
from dmc.dialect.symbols import Symbols


@rule(CopyOp)
def copy_goes_somewhere(op: CopyOp) -> None:
    """A copy leaves the space that its operand is in."""
    source, target = op.source.value, op.target.value
    if source == target:
        raise Violation(f"copies from {source} to {target}; use its operand, or name another space")
    before = op.input.owner
    # A block argument's owner is a block; its space is not written down.
    if getattr(before, "name", None) != CopyOp.OPERATION_NAME:
        return
    arrived = before.attributes["target"].value
    if arrived != source:
        raise Violation(f"copies from {source}, but its operand was copied to {arrived} at {before.location}")


@rule(ReshardOp)
def reshard_is_legal_for_its_type(op: ReshardOp) -> None:
    """Both shardings fit the rank and the mesh of each other, and nothing becomes partial."""
    for name in ("source", "target"):
        dims = len(getattr(op, name).dims)
        if dims != op.input.type.rank:
            raise Violation(f"'{name}' shards {dims} dimensions, but {op.input.type} has {op.input.type.rank}")
    if op.source.mesh != op.target.mesh:
        raise Violation(f"goes from mesh {op.source.mesh} to mesh {op.target.mesh}; both must be the same")
    source, target = partial_axes(op.source), partial_axes(op.target)
    for axis, kind in target.items():
        if source.get(axis) != kind:
            raise Violation(f"makes the value partial ({kind}) over '{axis}'; a reshard only completes partial values")


@symbol_rule(ReshardOp)
def reshard_divides_its_type(op: ReshardOp, symbols: Symbols) -> None:
    """The mesh has the axes, and their sizes divide the dimensions."""
    for attribute in (op.source, op.target):
        check_sharding(attribute, op.input.type.shape, symbols)


def check_sharding(attribute: ShardingAttr, shape: list[int], symbols: Symbols) -> None:
    """Checks a sharding against its mesh and the shape of the whole value; raises Violation."""
    split = split_axes(attribute)
    if len(split) != len(shape):
        raise Violation(f"{attribute} shards {len(split)} dimensions, but the value has {len(shape)}")
    symbols.axes_size(attribute.mesh.value, tuple(partial_axes(attribute)), attribute)
    for dim, (axes, size) in enumerate(zip(split, shape, strict=True)):
        parts = symbols.axes_size(attribute.mesh.value, axes, attribute)
        if size % parts:
            raise Violation(
                f"{attribute} splits dimension {dim} of size {size} into {parts} parts, which do not divide it"
            )
