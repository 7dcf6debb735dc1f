"""What a plan pins: gradients to the optimizer's placement, and what the modules that it names take and give."""

from __future__ import annotations

from typing import Any

import dmc
from dmc._mlir import ir
from dmc.analysis.labels.updates import gradients
from dmc.analysis.requests.plan import write_plan
from dmc.analysis.sharding.pins import pins_in
from dmc.importer.forward.precision import Precision
from dmc.importer.step import ImportedStep, import_step
from dmc.placement.pads import Pad
from dmc.placement.placement import Placement
from dmc.plans import Plan, resolve
from dmc.step_function import arguments, find_step
from tests.models import build

MESH = dmc.Mesh(dp=2, tp=2)
TOKENS = Placement([["tp"], [], []])


def _import(context: Any) -> ImportedStep:
    case = build("gpt2", 0.0)
    return import_step(case.model, case.loss, dmc.optim.SGD(lr=0.1), case.example(0), Precision.FP32, 1, 0, context)


def _write(imported: ImportedStep, plan: Plan) -> None:
    resolved = resolve(plan, imported.signature.state, imported.modules, imported.signature.batch)
    write_plan(imported.module, resolved, imported.signature, "cpu")


def test_gradients(context: Any) -> None:
    imported = _import(context)
    _write(imported, dmc.plan(MESH).data_parallel("dp", zero=2).shard("wpe.weight", dim=1, axis="tp"))
    step = find_step(imported.module)
    names = {step.arguments[port.index]: port.name for port in arguments(step)}
    pins = pins_in(step)
    found = {names[parameter]: pins[gradient] for parameter, gradient in gradients(step)}
    both = found["transformer.wpe.weight"]
    assert (both.at, both.along, both.brought) == (Placement([["dp"], ["tp"]]), ("dp", "tp"), ("dp",))
    assert found["transformer.ln_f.bias"].at == Placement([["dp"]])
    assert len(found) == len(pins)


def test_activations_on_the_way_forward(context: Any) -> None:
    imported = _import(context)
    _write(imported, dmc.plan(MESH).sequence_parallel("tp", between=["h.0.ln_2"]))
    pins = [(value, pin) for value, pin in pins_in(find_step(imported.module)).items() if pin.at == TOKENS]
    names = [value.owner.location for value, _ in pins]
    # The operand of the norm, the residual sum before it, and its result.
    told = [location.name_str.partition("#")[0] for location in names if isinstance(location, ir.NameLoc)]
    assert told == ["transformer.h.0", "transformer.h.0.ln_2"]
    assert all(pin.along == ("tp",) for _, pin in pins)


def test_a_sequence_where_the_batch_does_not_divide(context: Any) -> None:
    """A batch of 4 is in two parts over dp, which do not divide by 4."""
    imported = _import(context)
    plan = dmc.plan(dmc.Mesh(dp=2, tp=4)).data_parallel("dp").sequence_parallel("tp", between=["h.0.ln_2"])
    _write(imported, plan)
    pins = [pin for pin in pins_in(find_step(imported.module)).values() if pin.along == ("tp",)]
    assert {pin.at for pin in pins if len(pin.at.dims) == 3} == {Placement([[], ["tp"], []])}


def test_a_sequence_that_does_not_divide(context: Any) -> None:
    """Of 4 × 16 tokens, the 16 take less padding for 3 ranks."""
    plan = dmc.plan(dmc.Mesh(tp=3)).sequence_parallel("tp", between=["h.0.ln_2"])
    imported = _import(context)
    _write(imported, plan)
    pads = {pin.pads for pin in pins_in(find_step(imported.module)).values() if len(pin.at.dims) == 3 and pin.at.axes}
    assert pads == {(None, Pad(1, 16, 18), None)}
