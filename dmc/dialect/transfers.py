"""Rules of copies, reshards and stated shardings."""

from __future__ import annotations

from dmc._mlir import func, ir
from dmc.dialect._dm_gen import CopyOp, ReshardOp, ShardingAttr
from dmc.dialect.attributes import partial_axes, split_axes
from dmc.dialect.rules import Violation, rule, symbol_rule
from dmc.dialect.spec import check_attribute
from dmc.dialect.symbols import Symbols

# The attribute of a function's argument or result that says its sharding.
SHARDING = "dm.sharding"


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
        check_sharding_axes(attribute, op.input.type, symbols)
        for dim, (axes, size) in enumerate(zip(split_axes(attribute), op.input.type.shape, strict=True)):
            parts = symbols.axes_size(attribute.mesh.value, axes, attribute)
            if size % parts:
                raise Violation(f"{attribute} splits dimension {dim} of size {size} into {parts} unequal parts")


@symbol_rule(func.FuncOp)
def shardings_of_a_function_fit(op: func.FuncOp, symbols: Symbols) -> None:
    """Where an argument or a result says its sharding in `dm.sharding`, it fits the type's rank and the mesh.

    Sizes are not compared: whether the type is that of the whole value or of one rank's part depends on the form.
    """
    for kind, types, name in (("argument", op.type.inputs, "arg_attrs"), ("result", op.type.results, "res_attrs")):
        for i, attributes in enumerate(op.attributes.get(name, ())):
            if SHARDING in attributes:
                _check_stated_sharding(f"{SHARDING} of {kind} {i}", attributes[SHARDING], types[i], symbols)


def check_sharding_axes(attribute: ShardingAttr, type_: ir.RankedTensorType, symbols: Symbols) -> None:
    """Raises Violation where a sharding does not fit the rank of a type or names axes that its mesh lacks."""
    split = split_axes(attribute)
    if len(split) != type_.rank:
        raise Violation(f"{attribute} shards {len(split)} dimensions, but {type_} has {type_.rank}")
    for axes in (*split, tuple(partial_axes(attribute))):
        symbols.axes_size(attribute.mesh.value, axes, attribute)


def _check_stated_sharding(what: str, attribute: ir.Attribute, type_: ir.Type, symbols: Symbols) -> None:
    if not isinstance(attribute, ShardingAttr) or not attribute.parameters_hold():
        raise Violation(f"{what} is {attribute}; it must be #dm.sharding")
    if not isinstance(type_, ir.RankedTensorType):
        raise Violation(f"{what} is on a value of type {type_}; only tensors are sharded")
    check_attribute(attribute)
    check_sharding_axes(attribute, type_, symbols)
