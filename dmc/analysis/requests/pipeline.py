"""The stages into which a plan cuts a model, as an attribute of the module.

`dm.pipeline = {axis = "pp", cut = ["h.1", "h.2"], schedule = "1f1b", chunks = 1 : i64, microbatches = 8 : i64}`, with
`table = "…"`, the text of the schedule's file, where the schedule is in one: a form does not depend on where files are.
"""

from __future__ import annotations

from dmc._mlir import ir
from dmc.plans.pipelines import PipelinePlan

PIPELINE = "dm.pipeline"
_AXIS, _CUT, _SCHEDULE, _CHUNKS, _MICROBATCHES, _TABLE = "axis", "cut", "schedule", "chunks", "microbatches", "table"


def write_pipeline(module: ir.Module, plan: PipelinePlan | None) -> None:
    """States the stages, if there are any."""
    if plan is None:
        return
    context = module.context
    i64 = ir.IntegerType.get_signless(64, context)
    attributes: dict[str, ir.Attribute] = {
        _AXIS: ir.StringAttr.get(plan.axis, context),
        _CUT: ir.ArrayAttr.get([ir.StringAttr.get(path, context) for path in plan.cut], context),
        _SCHEDULE: ir.StringAttr.get(plan.schedule, context),
        _CHUNKS: ir.IntegerAttr.get(i64, plan.chunks),
        _MICROBATCHES: ir.IntegerAttr.get(i64, plan.microbatches),
    }
    if plan.table:
        attributes[_TABLE] = ir.StringAttr.get(plan.table, context)
    module.operation.attributes[PIPELINE] = ir.DictAttr.get(attributes, context)


def pipeline_of(module: ir.Module) -> PipelinePlan | None:
    """The stages that the module states; None where it states none."""
    if PIPELINE not in module.operation.attributes:
        return None
    own = ir.DictAttr(module.operation.attributes[PIPELINE])
    return PipelinePlan(
        axis=ir.StringAttr(own[_AXIS]).value,
        cut=tuple(ir.StringAttr(each).value for each in ir.ArrayAttr(own[_CUT])),
        schedule=ir.StringAttr(own[_SCHEDULE]).value,
        chunks=ir.IntegerAttr(own[_CHUNKS]).value,
        microbatches=ir.IntegerAttr(own[_MICROBATCHES]).value,
        table=ir.StringAttr(own[_TABLE]).value if _TABLE in own else "",
    )
