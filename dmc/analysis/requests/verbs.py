"""The verbs of a plan that passes follow, as an attribute of the module, so that a dump of any form can be resumed.

`dm.verbs = [{verb = "keep_apart", pattern = "h.*"}, {verb = "bucket", bytes = 1048576 : i64}]`: each with its fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from dmc._mlir import ir
from dmc.analysis.requests.keeping import root_of
from dmc.dialect import CompositeOp
from dmc.dialect.kinds import traits_of
from dmc.dialect.labels import module_path
from dmc.errors import PlanError
from dmc.plans.verbs import Decompose, OfModules, Precision, Verb
from dmc.program.labels import UPDATE
from dmc.step_function import find_step
from dmc.walk import listed

VERBS = "dm.verbs"
_NAME = "verb"

AVerb = TypeVar("AVerb", bound=Verb)


def write_verbs(module: ir.Module, verbs: Iterable[Verb]) -> None:
    """States the verbs, if there are any. Raises PlanError for one about modules in which the step computes nothing
    that it is about."""
    verbs = list(verbs)
    for verb in verbs:
        if isinstance(verb, OfModules):
            _check_computed(module, verb)
    # Precision is the model's, and is in what was imported.
    said = [verb for verb in verbs if not isinstance(verb, Precision)]
    if said:
        with module.context:
            module.operation.attributes[VERBS] = ir.ArrayAttr.get([_attribute(verb) for verb in said])


def verbs_of(module: ir.Module, kind: type[AVerb]) -> tuple[AVerb, ...]:
    """The verbs of one kind that the module states."""
    attributes = module.operation.attributes
    given = [ir.DictAttr(each) for each in ir.ArrayAttr(attributes[VERBS])] if VERBS in attributes else []
    said: list[dict[str, Any]] = [{each.name: _typed(each.attr).value for each in own} for own in given]
    return tuple(kind(**each) for each in said if each.pop(_NAME) == kind.verb)


def roots_of(verbs: Sequence[OfModules], module: str) -> tuple[str | None, ...]:
    """For each of the verbs the outermost module that it means, of one and those around it; None where it means none.

    module: a path, or the label of a kernel.
    """
    path = module.partition(", ")[0]
    return tuple(root_of(verb, path) for verb in verbs)


def _check_computed(module: ir.Module, verb: OfModules) -> None:
    is_opened = isinstance(verb, Decompose)
    for op in listed(find_step(module)):
        if is_opened and not (op.name == CompositeOp.OPERATION_NAME and traits_of(op.opview).is_whole):
            continue
        label = module_path(op.location)
        # The optimizer computes with what a module holds, not the module.
        if len(op.results) and not label.endswith(UPDATE) and roots_of([verb], label) != (None,):
            return
    what = "no composite that is a kernel of its own" if is_opened else "nothing"
    hint = "leave it out" if is_opened else "name modules whose forward is called, or leave it out"
    raise PlanError(str(verb), f"has no effect: the step computes {what} in these modules", hint)


def _attribute(verb: Verb) -> ir.Attribute:
    given = {each.name: getattr(verb, each.name) for each in fields(verb) if each.name != "recipe"}
    return ir.DictAttr.get({_NAME: ir.StringAttr.get(verb.verb), **{name: _said(given[name]) for name in given}})


def _said(value: Any) -> ir.Attribute:
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.StringAttr.get(value)


def _typed(attribute: ir.Attribute) -> ir.StringAttr | ir.BoolAttr | ir.IntegerAttr:
    assert isinstance(attribute, ir.StringAttr | ir.BoolAttr | ir.IntegerAttr), attribute
    return attribute
