"""The rule of a pipeline: what it means for a model, what it is refused for, and its attribute of the module."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc._mlir import ir
from dmc.analysis.requests.pipeline import pipeline_of, write_pipeline
from dmc.analysis.requests.plan import write_plan
from dmc.arguments import micro_batches
from dmc.errors import PlanError
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.mesh import Mesh
from dmc.plans import PipelinePlan, Plan, check_patterns, recipe, resolve
from dmc.program.signature import StateSpec

MESH = Mesh(dp=2, pp=2)
MODULES = ("", "embed", "h", "h.0", "h.0.fc", "h.1", "h.1.fc", "h.2", "h.2.fc", "h.3", "h.3.fc", "head", "head.fc")
BLOCK = 10
STATE = tuple(StateSpec(f"h.{layer}.fc.weight", "f32", (BLOCK,)) for layer in range(4))
CSV = "0F0,0B0\n1F0,1B0\n"

Build = Callable[[Plan], Plan]


def _two_layers() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))


def _resolved(plan: Plan, modules: tuple[str, ...] = MODULES, state: tuple[StateSpec, ...] = STATE) -> PipelinePlan:
    found = resolve(plan, state, modules, (), accumulate=8).pipeline
    assert found is not None
    return found


def test_the_record() -> None:
    plan = dmc.plan(Mesh(pp=2)).pipeline("pp", cut=["h.1", "h.2", "head"], schedule="interleaved", chunks=2)
    assert _resolved(plan) == PipelinePlan("pp", ("h.1", "h.2", "head"), "interleaved", 2, 8)
    assert _resolved(plan).stages == 4
    assert resolve(dmc.plan(MESH), STATE, MODULES, ()).pipeline is None


def test_it_prints_as_it_was_written() -> None:
    rules = recipe("mine").pipeline("pp", cut=["h.1"]).pipeline("pp", cut="balanced", microbatches=8, chunks=2).rules
    assert [str(rule) for rule in rules] == [
        'mine: pipeline("pp", cut=["h.1"])',
        'mine: pipeline("pp", cut="balanced", microbatches=8, chunks=2)',
    ]


def test_a_recipe_may_carry_it() -> None:
    plan = dmc.plan(MESH).use(recipe("mine").pipeline("pp", cut=["h.2"]))
    assert _resolved(plan).rule == 'mine: pipeline("pp", cut=["h.2"])'
    with pytest.raises(PlanError, match="0 cuts make 1 stage, but 'pp' has 2 ranks\n  hint: list 1 module that begins"):
        dmc.plan(MESH).use(recipe("mine").pipeline("pp", cut=[]))


def test_it_is_shown() -> None:
    resolved = resolve(dmc.plan(MESH).data_parallel("dp").pipeline("pp", cut=["h.2"]), STATE, MODULES, (), 8)
    assert resolved.unused_axes() == ("dp",)  # There is no batch.
    lines = [" ".join(line.split()) for line in resolved.table().splitlines()]
    assert 'stage 0 begins at the model pipeline("pp", cut=["h.2"])' in lines
    assert 'stage 1 begins at h.2 pipeline("pp", cut=["h.2"])' in lines
    assert "pipeline: 2 stages over pp, 8 micro-batches, schedule 1f1b" in lines
    assert json.loads(json.dumps(resolved.to_json()))["pipeline"]["cut"] == ["h.2"]
    chunks = _resolved(dmc.plan(Mesh(pp=1)).pipeline("pp", cut=["h.1"], chunks=2))
    assert str(chunks) == "2 stages over pp, 2 a rank, 8 micro-batches, schedule 1f1b"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda plan: plan.pipeline("pq", cut=["h.1"]),
            """pipeline("pq", cut=["h.1"]): axis 'pq' does not exist in Mesh(dp=2, pp=2)""",
        ),
        (
            lambda plan: plan.pipeline("pp", cut=["h.1", "h.2"]),
            """\
pipeline("pp", cut=["h.1", "h.2"]): 2 cuts make 3 stages, but 'pp' has 2 ranks
  hint: list 1 module that begins a stage, or use cut="balanced\"""",
        ),
        (
            lambda plan: plan.pipeline("pp", cut=["h.1"], chunks=2),
            """\
pipeline("pp", cut=["h.1"], chunks=2): 1 cut makes 2 stages, but 'pp' has 2 ranks with 2 stages each
  hint: list 3 modules that begin stages, or use cut="balanced\"""",
        ),
        (
            lambda plan: plan.pipeline("pp", cut="h.1"),
            """pipeline: cut='h.1' is no list of modules\n  hint: use cut=["h.1"], or "balanced\"""",
        ),
        (
            lambda plan: plan.pipeline("pp", cut=["h.1"], microbatches=0),
            "pipeline: microbatches=0\n  hint: it must be an integer of at least 1",
        ),
        (lambda plan: plan.pipeline("pp", cut=["h.1"], microbatches="8"), "pipeline: microbatches='8'"),
        (lambda plan: plan.pipeline("pp", cut=["h.1"], chunks=0), "pipeline: chunks=0"),
        (
            lambda plan: plan.pipeline("pp", cut=["h.1"], schedule="1F1B"),
            "pipeline: schedule='1F1B' is unknown\n  hint: use one of gpipe, 1f1b, ",
        ),
        (
            lambda plan: plan.pipeline("pp", cut=["h.1"]).pipeline("pp", cut=["h.2"]),
            'pipeline("pp", cut=["h.2"]): the plan has a pipeline already, pipeline("pp", cut=["h.1"])',
        ),
        (
            lambda plan: plan.data_parallel("pp").pipeline("pp", cut=["h.1"]),
            """\
pipeline("pp", cut=["h.1"]): axis 'pp' is used by data_parallel("pp") too
  hint: give the pipeline an axis of its own""",
        ),
        (
            lambda plan: plan.pipeline("pp", cut=["h.1"]).shard("fc.weight", dim=0, axis="pp"),
            """pipeline("pp", cut=["h.1"]): axis 'pp' is used by shard("fc.weight", dim=0, axis="pp") too""",
        ),
    ],
)
def test_refused_where_it_is_added(build: Build, message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        build(dmc.plan(MESH))


def test_an_axis_of_its_own_takes_other_rules() -> None:
    dmc.plan(MESH).data_parallel("dp").pipeline("pp", cut=["h.1"]).shard("fc.weight", dim=0, axis="dp")


CUTS = (
    (
        "h.7",
        """pipeline("pp", cut=["h.7"]): 'h.7' matches no module\n  hint: they are h.0 to h.3""",
    ),
    ("haed", "'haed' matches no module\n  hint: the closest are head"),
    (
        "h.*.fc",
        """\
pipeline("pp", cut=["h.*.fc"]): 'h.*.fc' matches 4 modules: h.0.fc, h.1.fc, h.2.fc, …
  hint: name one, by its whole path behind a dot: ".h.0.fc\"""",
    ),
    ("fc|head", "'fc|head' matches 6 modules"),
    (".", "'.' matches no module"),
)


@pytest.mark.parametrize(("cut", "message"), CUTS)
def test_a_cut_that_names_no_single_module(cut: str, message: str) -> None:
    plan = dmc.plan(MESH).pipeline("pp", cut=[cut])
    with pytest.raises(PlanError, match=re.escape(message)):
        _resolved(plan)
    with pytest.raises(PlanError, match=re.escape(message)):
        check_patterns(plan, {}, MODULES)


def test_a_module_named_twice() -> None:
    plan = dmc.plan(Mesh(pp=3)).pipeline("pp", cut=["h.1", ".h.1"])
    with pytest.raises(PlanError, match=r"'h.1' and '.h.1' are one module, h.1\n  hint: a module begins one stage"):
        _resolved(plan)


def test_a_schedule_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    plan = dmc.plan(MESH).pipeline("pp", cut=["h.2"], schedule=file)
    with pytest.raises(PlanError, match=r"schedule '.*mine.csv': cannot be read: No such file .*\n  hint: a row for"):
        check_patterns(plan, {}, MODULES)
    file.write_bytes(b"\xff")
    with pytest.raises(PlanError, match=r"cannot be read: it is not text"):
        _resolved(plan)
    file.write_text(CSV, encoding="utf-8")
    check_patterns(plan, {}, MODULES)
    assert _resolved(plan) == PipelinePlan("pp", ("h.2",), "mine.csv", 1, 8, CSV)


@pytest.mark.parametrize("table", ["", CSV])
def test_the_attribute_of_the_module(context: Any, table: str) -> None:
    plan = PipelinePlan("pp", ("h.1", "h.2"), "1f1b", 1, 8, table)
    with ir.Location.unknown(context):
        module = ir.Module.create()
    write_pipeline(module, None)
    assert pipeline_of(module) is None
    write_pipeline(module, plan)
    again = ir.Module.parse(str(module), context)
    assert again.operation.verify()
    assert pipeline_of(again) == plan
    if not table:
        head = 'dm.pipeline = {axis = "pp", chunks = 1 : i64, cut = ["h.1", "h.2"], microbatches = 8 : i64, schedule'
        assert head in str(again)


def test_a_pipeline_that_is_not_cut_yet_is_not_resolved() -> None:
    with pytest.raises(PlanError, match="is cut by times, which are not known here"):
        _resolved(dmc.plan(MESH).pipeline("pp", cut="balanced"))


def test_the_number_of_micro_batches() -> None:
    plan = dmc.plan(MESH)
    without, with_eight = (plan.pipeline("pp", cut=["h.1"], microbatches=count) for count in (None, 8))
    assert [micro_batches(given, plan) for given in (None, 2, [2, 3])] == [1, 2, [2, 3]]
    assert micro_batches(None, None) == 1
    assert [micro_batches(given, with_eight) for given in (None, 8, [8, 8])] == [8, 8, [8, 8]]
    assert [micro_batches(given, without) for given in (4, [4, 2])] == [4, [4, 2]]
    for given in (4, [8, 4]):
        message = r"accumulate: is .*, but pipeline\(.*\) has 8 micro-batches\n  hint: they are the same number"
        with pytest.raises(PlanError, match=message):
            micro_batches(given, with_eight)
    message = r"has no number of micro-batches\n  hint: a pipeline runs a batch in parts: .*, or accumulate=8"
    with pytest.raises(PlanError, match=message):
        micro_batches(None, without)


def test_a_step_states_its_stages(context: Any) -> None:
    model, x = _two_layers(), torch.randn(4, 4)
    imported = import_step(model, nn.functional.mse_loss, dmc.optim.SGD(lr=0.1), (x, x), Precision.FP32, 2, 0, context)
    plan, signature = dmc.plan(Mesh(pp=2)).pipeline("pp", cut=["1"]), imported.signature
    resolved = resolve(plan, signature.state, imported.modules, signature.batch, accumulate=2)
    write_plan(imported.module, resolved, signature, "cpu")
    assert pipeline_of(imported.module) == PipelinePlan("pp", ("1",), "1f1b", 1, 2) == resolved.pipeline
