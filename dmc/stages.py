"""The stages of a pipeline as modules inside a module: what each of its ranks runs, until the plan joins them.

A rank that has several stages of the model, as interleaved schedules give it, has them in one module.

`module { module @stage0 attributes {dm.stage = {axis = "pp", index = 0}} { … @step … } module @stage1 … }`
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from dmc._mlir import builtin, ir
from dmc.mesh import Mesh

# On a module: it is one of a pipeline's stages, and where on the mesh it runs.
STAGE = "dm.stage"
NAME = "stage"


@dataclass(frozen=True)
class Place:
    """Where on the mesh a module of a pipeline runs: all ranks with this index along the axis."""

    axis: str
    index: int

    def ranks(self, mesh: Mesh) -> tuple[int, ...]:
        """Those ranks, ascending."""
        return tuple(rank for rank in mesh.ranks if mesh.coordinates(rank)[self.axis] == self.index)


def place_of(module: ir.Module | ir.Operation) -> Place | None:
    """Where a module runs; None where that is all ranks."""
    attributes = (module.operation if isinstance(module, ir.Module) else module).attributes
    if STAGE not in attributes:
        return None
    return Place(attributes[STAGE]["axis"].value, attributes[STAGE]["index"].value)


def put_place(module: ir.Module, place: Place) -> None:
    """States where a module runs."""
    with module.context:
        i64 = ir.IntegerType.get_signless(64)
        given = {"axis": ir.StringAttr.get(place.axis), "index": ir.IntegerAttr.get(i64, place.index)}
        module.operation.attributes[STAGE] = ir.DictAttr.get(given)


def has_stages(module: ir.Module) -> bool:
    """Whether a module consists of stages."""
    return any(isinstance(op, builtin.ModuleOp) for op in module.body.operations)


@contextmanager
def stages_of(module: ir.Module) -> Generator[list[ir.Module]]:
    """The stages as modules of their own, put back at the end; the module itself where it has none."""
    nested = [op for op in module.body.operations if isinstance(op, builtin.ModuleOp)]
    if not nested:
        yield [module]
        return
    apart = [_taken(op) for op in nested]
    try:
        yield apart
    finally:
        for op, own in zip(nested, apart, strict=True):
            _move(own.operation, op.operation)


def put_in(own: ir.Module, module: ir.Module) -> None:
    """Makes a module the next stage of another."""
    count = sum(isinstance(op, builtin.ModuleOp) for op in module.body.operations)
    with own.context, ir.Location.unknown(), ir.InsertionPoint(module.body):
        op = builtin.ModuleOp()
        op.operation.attributes["sym_name"] = ir.StringAttr.get(f"{NAME}{count}")
    _move(own.operation, op.operation)


def _taken(op: builtin.ModuleOp) -> ir.Module:
    own = ir.Module.create(op.operation.location)
    _move(op.operation, own.operation)
    return own


def _move(source: ir.Operation, target: ir.Operation) -> None:
    """Moves what a module contains, and its attributes but the name."""
    for name in [name for name in target.attributes if name != "sym_name"]:
        del target.attributes[name]
    for name in [name for name in source.attributes if name != "sym_name"]:
        target.attributes[name] = source.attributes[name]
    block = target.regions[0].blocks[0]
    for view in list(source.regions[0].blocks[0].operations):
        block.append(view)
