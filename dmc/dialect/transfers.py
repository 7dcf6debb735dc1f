"""Rules of copies, reshards and stated shardings."""

from __future__ import annotations

from dmc._mlir import func, ir
from dmc.dialect._dm_gen import CopyOp, ReshardOp, ShardingAttr
from dmc.dialect.attributes import partial_axes, split_axes
from dmc.dialect.rules import Violation, rule, symbol_rule
from dmc.dialect.spec import check_attribute
from dmc.dialect.symbols import Symbols

# The attribute with the sharding of a function's argument or result.
SHARDING = "dm.sharding"


@rule(CopyOp)
def copy_goes_somewhere(op: CopyOp) -> None:
    """A copy leads out of the space that its operand is in."""
    source, target = op.source.value, op.target.value
    if source == target:
        raise Violation(f"copies from {source} to {target}; use its operand, or name another space")
    before = op.input.owner
    # A block argument's owner is a block; its space is not recorded.
    if getattr(before, "name", None) != CopyOp.OPERATION_NAME:
        return
    arrived = before.attributes["target"].value
    if arrived != source:
        raise Violation(f"copies from {source}, but its operand was copied to {arrived} at {before.location}")


@rule(ReshardOp)
def reshard_is_legal_for_its_types(op: ReshardOp) -> None:
    """Both shardings match the tensor's rank and have the same mesh, and new partial axes are sums."""
    operand, result = op.input.type, op.result.type
    if operand.element_type != result.element_type or operand.rank != result.rank:
        raise Violation(f"turns {operand} into {result}; element type and rank must not change")
    for name in ("source", "target"):
        dims = len(getattr(op, name).dims)
        if dims != operand.rank:
            raise Violation(f"'{name}' shards {dims} dimensions, but {operand} has {operand.rank}")
    if op.source.mesh != op.target.mesh:
        raise Violation(f"goes from mesh {op.source.mesh} to mesh {op.target.mesh}; both must be the same")
    source, target = partial_axes(op.source), partial_axes(op.target)
    for axis, kind in target.items():
        if kind != "sum" and source.get(axis) != kind:
            raise Violation(f"makes the value partial ({kind}) over '{axis}'; a value can only become partial by sum")


@symbol_rule(ReshardOp)
def reshard_keeps_the_whole(op: ReshardOp, symbols: Symbols) -> None:
    """The mesh has the axes, and operand and result are parts of the same global value."""
    operand, result = (
        _whole_shape(attribute, type_, symbols)
        for attribute, type_ in ((op.source, op.input.type), (op.target, op.result.type))
    )
    for dim, (before, after) in enumerate(zip(operand, result, strict=True)):
        if before != after:
            raise Violation(f"dimension {dim} of the whole is {before} by 'source' but {after} by 'target'")


def _whole_shape(attribute: ShardingAttr, part: ir.RankedTensorType, symbols: Symbols) -> list[int]:
    check_sharding_axes(attribute, part, symbols)
    mesh = attribute.mesh.value
    sizes = zip(split_axes(attribute), part.shape, strict=True)
    return [size * symbols.axes_size(mesh, axes, attribute) for axes, size in sizes]


@symbol_rule(func.FuncOp)
def shardings_of_a_function_fit(op: func.FuncOp, symbols: Symbols) -> None:
    """A `dm.sharding` of an argument or a result matches the type's rank and the mesh.

    Sizes are not compared: whether the type is global or local depends on the form.
    """
    for kind, types, name in (("argument", op.type.inputs, "arg_attrs"), ("result", op.type.results, "res_attrs")):
        for i, attributes in enumerate(op.attributes.get(name, ())):
            if SHARDING in attributes:
                _check_stated_sharding(f"{SHARDING} of {kind} {i}", attributes[SHARDING], types[i], symbols)


def check_sharding_axes(attribute: ShardingAttr, type_: ir.RankedTensorType, symbols: Symbols) -> None:
    """Raises Violation if a sharding does not match the rank of a type or uses axes that its mesh lacks."""
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
