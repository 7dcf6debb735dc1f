"""Steps with padding compute what they compute without; with one fact about padding wrong, that shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import dmc
from dmc._mlir import ir
from dmc.analysis.requests.plan import write_plan
from dmc.dialect.paddings import PADS, pads_in
from dmc.importer.forward.precision import Precision
from dmc.importer.step import ImportedStep, import_step
from dmc.passes.placed.pad_uneven import PadUneven, build, facts, flow, known, rewrite
from dmc.passes.shared.slices import slice_from
from dmc.placement.pads import Pads
from dmc.plans import Plan, resolve
from dmc.step_function import arguments, find_step, results
from tests import uneven
from tests.models.case import Case
from tests.partitioned import run_on_one_rank

Array = np.ndarray[Any, Any]
TENSOR = dmc.plan(dmc.Mesh(tp=3)).use(dmc.plans.megatron_gpt2("tp"))
DATA = dmc.plan(dmc.Mesh(dp=3)).data_parallel("dp", zero=2)
SMALL = partial(uneven.gpt2, words=29, width=8, heads=2)


def _mlp_plan(ranks: int) -> Plan:
    plan = dmc.plan(dmc.Mesh(tp=ranks)).shard("0.*", dim=0, axis="tp").shard("3.weight", dim=1, axis="tp")
    return plan.shard("5.weight", dim=0, axis="tp").shard("5.bias", dim=0, axis="tp")


CASES: dict[str, tuple[Callable[[], Case], Plan]] = {
    "vocabulary": (SMALL, TENSOR),
    "batch": (SMALL, DATA),
    "odd": (uneven.mlp, _mlp_plan(2)),
}


def _import(case: Case, context: Any) -> ImportedStep:
    optimizer = dmc.optim.AdamW(lr=0.05, clip_grad_norm=0.5)
    return import_step(case.model, case.loss, optimizer, case.example(0), Precision.FP32, 1, 0, context)


def _given(imported: ImportedStep, case: Case) -> list[Array]:
    example = case.example(0)
    batch = list(example.values()) if isinstance(example, dict) else list(example)
    controls = [np.array([0.05], np.float32), np.array(0, np.int32)]
    # Weights beside which a class of zeros is not small.
    state = [2 * each.numpy() if each.is_floating_point() else each.numpy() for each in imported.state.values()]
    return [*(array.copy() for array in state), *controls, *(each.numpy().copy() for each in batch)]


def _padded(array: Array, pads: Pads, repeats: bool) -> Array:
    for dim, pad in enumerate(pads):
        if pad is not None:
            assert pad.blocks in (1, 3)
            blocks = np.split(array, pad.blocks, dim)
            more = [(0, pad.wide - pad.own if dim == axis else 0) for axis in range(array.ndim)]
            array = np.concatenate([np.pad(each, more, mode="wrap" if repeats else "constant") for each in blocks], dim)
    return array


def _difference(name: str, context: Any) -> str:
    """What differs between a step with padding and without; "" where nothing does."""
    build_case, plan = CASES[name]
    case = build_case()
    plain, imported = _import(case, context), _import(case, context)
    given = _given(plain, case)
    expected = run_on_one_rank(plain.module, [each.copy() for each in given])
    signature = imported.signature
    resolved = resolve(plan, signature.state, imported.modules, signature.batch)
    write_plan(imported.module, resolved, signature, "cpu")
    with ir.Location.unknown(context):
        PadUneven().run(imported.module)
    step = find_step(imported.module)
    pads = {
        port.name: pads_in(own[PADS]) for port, own in zip(arguments(step), step.arg_attrs, strict=True) if PADS in own
    }
    assert pads, "nothing is padded"
    padded = [
        _padded(each, pads.get(port.name, (None,) * each.ndim), port.role == "batch")
        for each, port in zip(given, arguments(step), strict=True)
    ]
    found = run_on_one_rank(imported.module, padded)
    for port, want, have in zip(results(step), expected, found, strict=True):
        wide = _padded(want, pads.get(port.name, (None,) * want.ndim), repeats=False)
        if not np.allclose(have, wide, rtol=1e-4, atol=1e-6):
            return port.name
    return ""


@pytest.mark.parametrize("name", CASES)
def test_padding_changes_nothing(name: str, context: Any) -> None:
    assert _difference(name, context) == ""


def _cut_late(value: ir.Value, offsets: list[int], type_: ir.RankedTensorType) -> ir.Value:
    first = [whole - own for whole, own in zip(value.type.shape, type_.shape, strict=True)]
    return slice_from(value, first, type_)


def _without(field: str) -> Callable[..., Any]:
    """The flow's decision without one kind of mask."""
    safe = flow.Flow._safe  # pyright: ignore[reportPrivateUsage]

    def changed(self: flow.Flow, op: ir.Operation, work: Any) -> Any:
        return replace(safe(self, op, work), **{field: () if field == "masked" else {}})

    return changed


def _all_zero(op: ir.Operation, given: Any) -> facts.Fact:
    return facts.ZEROS


MUTANTS: dict[str, tuple[str, Any, str, Any]] = {
    "sums read padding": ("vocabulary", flow.Flow, "_safe", _without("masked")),
    "products read padding": ("vocabulary", flow.Flow, "_to_zero", lambda *_: {}),
    "state is not masked": ("odd", facts.Fact, "is_zero", True),
    "everything is taken for zero": ("odd", facts, "fact_of", _all_zero),
    "what is left out is one": ("vocabulary", rewrite, "_neutral", lambda type_, _: build.number_for(type_, 1)),
    "padding is cut from the front": ("vocabulary", build, "slice_from", _cut_late),
    "rows of padding count": ("batch", flow.Flow, "_safe", _without("filled")),
    "rows of padding are summed": ("batch", flow.Flow, "_safe", _without("masked")),
    "products take initial zeros for a factor": ("odd", known, "_product", lambda _: facts.ZEROS),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_fact_shows(mutant: str, context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name, owner, attribute, value = MUTANTS[mutant]
    monkeypatch.setattr(owner, attribute, value)
    assert _difference(name, context) != ""


def test_the_batch_is_drawn(context: Any) -> None:
    """The examples differ from row to row: a row that counts twice would show."""
    rows = SMALL().example(0)
    assert isinstance(rows, dict)
    assert len(torch.unique(rows["input_ids"], dim=0)) == uneven.ROWS
