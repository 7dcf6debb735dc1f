"""The placements of arguments and results of `@step`, from its attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dmc import dialect as dm
from dmc._mlir import func, ir
from dmc.analysis.sharding.decisions import Ends
from dmc.dialect.placements import mesh_of, placement_of
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.placement.placement import Placement, replicated
from dmc.step_function import arguments, results

# On an argument, a result or an operation: its placement. On an argument: the placement of its uses, if different.
SHARDING, USED = "dm.sharding", "dm.used"
# The roles of arguments that operations read as weights; those that are not trained are frozen.
_WEIGHTS = ("parameter", "frozen")


def has_mesh(module: ir.Module) -> bool:
    """Whether the module is for a mesh; without one a single rank does everything."""
    return any(isinstance(op, dm.MeshOp) for op in module.body.operations)


def find_mesh(module: ir.Module) -> tuple[str, Mesh]:
    """The symbol and the axes of the module's one mesh. Raises DmcError if there is none or several."""
    meshes = [op for op in module.body.operations if isinstance(op, dm.MeshOp)]
    if len(meshes) != 1:
        hint = "declare one dm.mesh in the module"
        raise DmcError(module.operation, f"has {len(meshes)} meshes", hint)
    return ir.StringAttr(meshes[0].operation.attributes["sym_name"]).value, mesh_of(meshes[0])


def ends_of(step: func.FuncOp, mesh: Mesh) -> Ends:
    """Arguments are placed by `dm.sharding`, by default replicated, and resharded to `dm.used`.

    A result without placement gets that of the argument of the same name, whose new value it is, else it is replicated.
    Raises DmcError if a placement does not match the value's type or does not divide its shape.
    """
    given, wanted = _attributes(step, "arg_attrs", step.type.inputs), _attributes(step, "res_attrs", step.type.results)
    stored = [
        _placement(step, type_, each, SHARDING, mesh) for type_, each in zip(step.type.inputs, given, strict=True)
    ]
    used = [
        _placement(step, type_, each, USED, mesh) if USED in each else before
        for type_, each, before in zip(step.type.inputs, given, stored, strict=True)
    ]
    weights = {port.index for port in arguments(step) if port.role in _WEIGHTS}
    by_name = {port.name: stored[port.index] for port in arguments(step) if port.name}
    leaving = [
        by_name[port.name]
        if port.name in by_name and SHARDING not in wanted[port.index]
        else _placement(step, port.type, wanted[port.index], SHARDING, mesh)
        for port in results(step)
    ]
    return Ends(tuple(stored), tuple(used), tuple(leaving), frozenset(weights))


def checked(op: ir.Operation, type_: ir.Type, attribute: ir.Attribute, mesh: Mesh) -> Placement:
    """The placement that an attribute states. Raises DmcError if it is not valid for a tensor of this type on
    `mesh`."""
    if not isinstance(attribute, dm.ShardingAttr) or not isinstance(type_, ir.RankedTensorType):
        raise DmcError(op, f"{attribute} is stated for a {type_}", "state #dm.sharding for a tensor")
    placement = placement_of(attribute)
    placement.local_shape(mesh, type_.shape)
    return placement


def _attributes(step: func.FuncOp, name: str, types: Sequence[ir.Type]) -> list[Mapping[str, Any]]:
    stated = step.operation.attributes.get(name)
    return [{} for _ in types] if stated is None else list(stated)


def _placement(
    step: func.FuncOp, type_: ir.Type, attributes: Mapping[str, Any], name: str, mesh: Mesh
) -> Placement | None:
    if not isinstance(type_, ir.RankedTensorType):
        return None
    if name not in attributes:
        return replicated(type_.rank)
    return checked(step.operation, type_, attributes[name], mesh)
