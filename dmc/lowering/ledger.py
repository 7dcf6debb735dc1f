"""The movements of a step between ranks, from the program of one rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from dmc._mlir import ir
from dmc.analysis.labels.buckets import members_of
from dmc.analysis.ranks.traffic import Movement, meshes_of, traffic
from dmc.dialect.labels import label_of, module_path, place_of
from dmc.errors import DmcError
from dmc.lowering.ledger_bounds import bounds_of
from dmc.mesh import Mesh
from dmc.plans.resolved import ResolvedPlan
from dmc.program.labels import GRADIENT, SEPARATOR
from dmc.program.movements import Entry, Movements
from dmc.program.sizes import element_bytes
from dmc.step_function import arguments, find_step


def movements_of(module: ir.Module, plan: ResolvedPlan | None = None) -> Movements:
    """The movements of `@step` in form placed, the program of one rank, after dm-fold-collectives.

    A movement is named and explained by its label (`dmc/dialect/labels.py`), or by the module of its location; that of
    a parameter, its gradient or an input by the rules of `plan`, which also imply the lower bounds. One that moves a
    bucket has an entry for each member. A module without a mesh has none.

    Raises DmcError for several meshes, for a collective in a loop whose trip count is not constant, and if `plan` is
    for another mesh.
    """
    meshes = meshes_of(module)
    if not meshes:
        return Movements()
    if len(meshes) > 1:
        raise DmcError(module.operation, f"has {len(meshes)} meshes", "a job has exactly one dm.mesh")
    (mesh,) = meshes.values()
    if plan is not None and tuple(plan.mesh.items()) != tuple(mesh.items()):
        raise DmcError(module.operation, f"is for {mesh}, but the plan is for {plan.mesh}", "compile with this plan")
    movements = traffic(module)
    rules = {} if plan is None else {name: each.rules for name, each in (*plan.tensors.items(), *plan.inputs.items())}
    entries = list[Entry]()
    ports = [port for port in arguments(find_step(module)) if _is_tensor(port.type)]
    widths = {port.name: element_bytes(str(port.type.element_type)) for port in ports}
    for movement in movements:
        width = element_bytes(str(movement.op.operands[0].type.element_type))
        for entry in _entries(movement, mesh, rules):
            widths[entry.owner] = min(width, widths.get(entry.owner, width))
            entries.append(entry)
    bounds = () if plan is None else bounds_of(plan, widths)
    return Movements(dict(mesh.items()), tuple(entries), _by_rank(movements, mesh), bounds)


def _entries(movement: Movement, mesh: Mesh, rules: Mapping[str, Sequence[str]]) -> Iterator[Entry]:
    op, label = movement.op, label_of(movement.op)
    given, members = ir.RankedTensorType(op.operands[0].type), members_of(op)
    names = label.tensor.split(SEPARATOR) if members else [label.tensor]
    whole = prod(given.shape)
    for name, shape, location in zip(names, members or [given.shape], _locations(op, len(names)), strict=True):
        own, place = rules.get(name.removeprefix(GRADIENT), ()), place_of(location)
        yield Entry(
            kind=movement.kind.removeprefix("dm."),
            tensor=name or (place.partition("#")[0] if "#" in place else ""),
            dtype=str(given.element_type),
            shape=tuple(shape),
            axes=movement.axes,
            group=mesh.group_size(movement.axes),
            bytes=movement.bytes * prod(shape) // whole if members else movement.bytes,
            why=SEPARATOR.join(own) or label.why,
            place=place,
            label=name or module_path(location),
        )


def _locations(op: ir.Operation, count: int) -> Sequence[ir.Location]:
    """Those of the members of a bucket, from which it was merged."""
    if isinstance(op.location, ir.FusedLoc) and len(op.location.locations) == count > 1:
        return op.location.locations
    return [op.location] * count


def _is_tensor(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType)


def _by_rank(movements: Iterable[Movement], mesh: Mesh) -> tuple[int, ...]:
    sent = dict.fromkeys(mesh.ranks, 0)
    for movement in movements:
        for (source, _), size in movement.sent.items():
            sent[source] += size
    return tuple(sent.values())
