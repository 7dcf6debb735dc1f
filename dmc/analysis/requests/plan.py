"""A resolved plan's placements of the arguments of `@step`, as attributes."""

from __future__ import annotations

from collections.abc import Mapping

from dmc import dialect as dm
from dmc._mlir import ir
from dmc.analysis.requests.pipeline import write_pipeline
from dmc.analysis.requests.values import write_pins
from dmc.analysis.sharding.ends import SHARDING, USED
from dmc.dialect.paddings import PADS, USED_PADS, pads_attribute
from dmc.dialect.placements import sharding_of
from dmc.mesh import Mesh
from dmc.placement.pads import Pads
from dmc.placement.placement import Placement
from dmc.plans import ResolvedPlan
from dmc.program.signature import Signature
from dmc.step_function import arguments, find_step

SYMBOL = "mesh"
# On an argument of `@step`: a weight that is freed after each pass that reads it.
FREED = "dm.freed"


def write_plan(module: ir.Module, plan: ResolvedPlan, signature: Signature, device: str) -> None:
    """Declares `dm.mesh @mesh` and states the placements of state and inputs between steps, and of their uses in the
    step, and the stages of a pipeline.

    `@step(%w {dm.name = "w"})` under ZeRO of stage 2 becomes `@step(%w {dm.name = "w", dm.sharding = [dp, -], dm.used =
    [-, -]})`, under stage 3 also `dm.freed`. What the plan does not place (learning rates, the guard) gets no
    attribute: it is replicated. `device` is the kind of device of a rank ("cpu", "cuda").
    """
    _declare(module, plan.mesh, device)
    write_pipeline(module, plan.pipeline)
    stored = {spec.name: plan.state_layout(spec).placement() for spec in signature.state}
    stored |= {name: each.layout.placement() for name, each in plan.inputs.items()}
    used = {name: each.used.placement() for name, each in plan.tensors.items()}
    pads = {spec.name: plan.state_pads(spec) for spec in signature.state}
    pads |= {name: each.pads for name, each in plan.inputs.items()}
    read = {name: each.padding(each.used) for name, each in plan.tensors.items()}
    freed = {name for name, each in plan.tensors.items() if each.is_freed}
    step = find_step(module)
    with module.context:
        given = zip(arguments(step), step.arg_attrs, strict=True)
        placed = [_placed(own, stored.get(port.name), used.get(port.name), port.name in freed) for port, own in given]
        placed = [_padded(own, port.name, pads, read) for port, own in zip(arguments(step), placed, strict=True)]
        step.operation.attributes["arg_attrs"] = ir.ArrayAttr.get(placed)
        write_pins(module, plan, SYMBOL)


def _padded(own: ir.DictAttr, name: str, pads: Mapping[str, Pads], read: Mapping[str, Pads]) -> ir.DictAttr:
    attributes = {each.name: each.attr for each in own}
    if any(pads.get(name, ())):
        attributes[PADS] = pads_attribute(pads[name])
    if read.get(name, pads.get(name)) != pads.get(name):
        attributes[USED_PADS] = pads_attribute(read[name])
    return ir.DictAttr.get(attributes)


def _declare(module: ir.Module, mesh: Mesh, device: str) -> None:
    # The target decides links that the user did not name: the ranks of a CPU share its memory.
    links = [link or "memory" for link in mesh.links]
    with ir.InsertionPoint.at_block_begin(module.body), ir.Location.unknown(module.context):
        dm.mesh(sym_name=SYMBOL, axes=mesh.axes, sizes=mesh.sizes, device=device, links=links)


def _placed(own: ir.DictAttr, stored: Placement | None, used: Placement | None, is_freed: bool) -> ir.DictAttr:
    if stored is None:
        return own
    attributes = {each.name: each.attr for each in own}
    attributes[SHARDING] = sharding_of(stored, SYMBOL)
    if used not in (None, stored):
        attributes[USED] = sharding_of(used, SYMBOL)
    if is_freed:
        attributes[FREED] = ir.UnitAttr.get()
    return ir.DictAttr.get(attributes)
