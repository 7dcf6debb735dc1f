"""The ledger of a step, from the program of one rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

from dmc._mlir import ir
from dmc.analysis.traffic import Movement, element_bytes, meshes_of, traffic
from dmc.dialect.labels import label_of, place_of
from dmc.errors import DmcError
from dmc.mesh import Mesh
from dmc.plans.resolved import ResolvedPlan, TensorPlan
from dmc.runtime.ledger import GRADIENT, Bound, Entry, Ledger
from dmc.step_function import arguments, find_step


def ledger_of(module: ir.Module, plan: ResolvedPlan | None = None) -> Ledger:
    """The movements of `@step` in form placed, the program of one rank, after dm-fold-collectives.

    A movement is named and explained by its label (`dmc/dialect/labels.py`), without one by the module of its location;
    that of a parameter, its gradient or an input by the rules of `plan`, of which the lower bounds are, too. A module
    without a mesh has the empty ledger.

    Raises DmcError for several meshes, for a collective in a loop whose number of rounds is not constant, and where
    `plan` is of another mesh.
    """
    meshes = meshes_of(module)
    if not meshes:
        return Ledger()
    if len(meshes) > 1:
        raise DmcError(module.operation, f"has {len(meshes)} meshes", "the ranks of a job are those of one dm.mesh")
    (mesh,) = meshes.values()
    if plan is not None and tuple(plan.mesh.items()) != tuple(mesh.items()):
        raise DmcError(module.operation, f"is for {mesh}, but the plan is for {plan.mesh}", "compile with this plan")
    movements = traffic(module)
    rules = {} if plan is None else {name: each.rules for name, each in (*plan.tensors.items(), *plan.inputs.items())}
    entries = tuple(_entry(movement, mesh, rules) for movement in movements)
    widths = _widths(module, movements, entries)
    tensors = () if plan is None else plan.tensors.values()
    return Ledger(dict(mesh.items()), entries, _by_rank(movements, mesh), tuple(_bounds(tensors, widths, mesh)))


def _entry(movement: Movement, mesh: Mesh, rules: Mapping[str, Sequence[str]]) -> Entry:
    label, place = label_of(movement.op), place_of(movement.op.location)
    given = ir.RankedTensorType(movement.op.operands[0].type)
    own = rules.get(label.tensor.removeprefix(GRADIENT), ())
    return Entry(
        kind=movement.kind.removeprefix("dm."),
        tensor=label.tensor or (place.partition("#")[0] if "#" in place else ""),
        dtype=str(given.element_type),
        shape=tuple(given.shape),
        axes=movement.axes,
        group=mesh.group_size(movement.axes),
        bytes=movement.bytes,
        why="; ".join(own) or label.why,
        place=place,
    )


def _by_rank(movements: Iterable[Movement], mesh: Mesh) -> tuple[int, ...]:
    sent = dict.fromkeys(mesh.ranks, 0)
    for movement in movements:
        for (source, _), size in movement.sent.items():
            sent[source] += size
    return tuple(sent.values())


def _widths(module: ir.Module, movements: Iterable[Movement], entries: Iterable[Entry]) -> Mapping[str, int]:
    """By name of a tensor, the bytes of one element in the narrowest type in which it or its gradient is moved."""
    ports = arguments(find_step(module))
    widths = {port.name: element_bytes(port.type) for port in ports if isinstance(port.type, ir.RankedTensorType)}
    for movement, entry in zip(movements, entries, strict=True):
        if entry.owner in widths:
            width = element_bytes(ir.RankedTensorType(movement.op.operands[0].type))
            widths[entry.owner] = min(widths[entry.owner], width)
    return widths


def _bounds(tensors: Iterable[TensorPlan], widths: Mapping[str, int], mesh: Mesh) -> Iterator[Bound]:
    """See `Bound`: one for each tensor of which several ranks make a part of the gradient."""
    for tensor in tensors:
        axes = tuple(use.axis for use in tensor.gradient.partial) if tensor.gradient is not None else ()
        n = mesh.group_size(axes)
        if n > 1:
            local = tensor.used.placement().local_shape(mesh, tensor.spec.shape)
            size = prod(local) * widths[tensor.spec.name]
            yield Bound(tensor.spec.name, axes, mesh.size // n * 2 * (n - 1) * size)
