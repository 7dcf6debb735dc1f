"""What people call the commands and buffers of a plan: modules, tensors and slots, never files or lines."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc import dialect as dm
from dmc import plans
from dmc._mlir import ir
from dmc.analysis.commands.jobs import job_of
from dmc.analysis.requests.plan import write_plan
from dmc.dialect.labels import module_path
from dmc.importer import origin
from dmc.importer.capture.capture import MODEL, capture
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.lowering.ledger import movements_of
from dmc.passes.base import parse_pipeline, run_passes
from dmc.passes.scheduled.bucket import Bucket
from dmc.passes.scheduled.select_kernels import SelectKernels
from dmc.pipeline import STAGES
from dmc.plans import Plan, resolve
from dmc.program import Collective, Job, Launch, Move
from dmc.program.describe import title_of
from dmc.program.labels import short
from dmc.runtime.reports.memory.report import report
from dmc.walk import walk
from tests.placed_gpt2 import PLACE, placed_gpt2

DP2, TP2 = dmc.Mesh(dp=2), dmc.Mesh(tp=2)
LOSS = """import torch
def loss(output, targets):
    return (torch.sub(*torch.broadcast_tensors(output, targets)) ** 2).mean()
"""


def _planned(module: ir.Module) -> Job:
    """The job of a module in form placed, with all that is alike in one bucket, and no code for its kernels."""
    (scheduled,) = [list(stage.passes) for stage in STAGES if stage.form.name == "scheduled"]
    (planned,) = [list(stage.passes) for stage in STAGES if stage.form.name == "planned"]
    passes = [Bucket() if isinstance(each, Bucket) else each for each in scheduled]
    run_passes(module, [*(each for each in passes if not isinstance(each, SelectKernels)), *planned])
    return job_of(module)


def _paths(module: ir.Module) -> set[tuple[str, str]]:
    """The label and the path of the location of every collective of a plan."""
    moved = [op for op in walk(module.operation) if op.name == dm.CollectiveOp.OPERATION_NAME]
    return {(op.opview.label.value, module_path(op.location)) for op in moved}


def _mlp(plan: Plan, context: Any, loss: Any = nn.functional.mse_loss) -> Job:
    """Two layers of 4 and 8 values; 4 × 8 + 8 + 8 × 4 + 4 parameters."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    example = (torch.zeros(4, 4), torch.zeros(4, 4))
    imported = import_step(model, loss, dmc.optim.AdamW(lr=0.1), example, Precision.FP32, 1, 0, context)
    signature = imported.signature
    names = [name for name, _ in model.named_modules()]
    write_plan(imported.module, resolve(plan, signature.state, names, signature.batch, 1), signature, "cpu")
    run_passes(imported.module, parse_pipeline(PLACE))
    return _planned(imported.module)


PARAMETERS = 4 * (4 * 8 + 8 + 8 * 4 + 4)
ZERO2, ZERO3 = (dmc.plan(DP2).use(zero("dp")) for zero in (plans.zero2, plans.zero3))


def test_gradients_of_zero2_are_gradients(context: Any) -> None:
    job = _mlp(ZERO2, context)
    (memory,) = report(job).ranks
    assert memory.most["gradient"] >= PARAMETERS
    # Before the reduce-scatter, in its bucket, and behind it.
    of_bucket = "gradient of 2.weight, …, 0.bias (4 tensors)"
    held = {(each.label, each.category) for each in memory.buffers}
    assert {label for label, category in held if category == "gradient"} == {
        *(f"gradient of {layer}.{name}" for layer in "02" for name in ("weight", "bias")),
        of_bucket,
    }
    buckets = [each for each in memory.buffers if each.label == of_bucket]
    assert {each.category for each in buckets} == {"gradient"}
    assert len({each.range.length for each in buckets}) == 2, "whole, and one rank's rows"


def test_gathered_weights_of_zero3_are_communication(context: Any) -> None:
    (memory,) = report(_mlp(ZERO3, context)).ranks
    gathered = {each.label: each.range.length for each in memory.buffers if each.category == "communication"}
    assert {name: gathered[name] for name in ("0.weight", "0.bias", "2.weight", "2.bias")} == {
        "0.weight": 128,
        "0.bias": 32,
        "2.weight": 128,
        "2.bias": 16,
    }
    assert all(each.label for each in memory.buffers)


def test_movements_say_what_they_move(context: Any) -> None:
    job = _mlp(ZERO2, context)
    works = [each for each in job.programs[0].commands if isinstance(each, Launch | Move | Collective)]
    labels = {type(each): [one.label for one in works if type(one) is type(each)] for each in works}
    assert {"lr", "guard", "input", "targets", "loss", "finite"} <= set(labels[Move])
    gradients = "gradient of 2.weight; gradient of 2.bias; gradient of 0.weight; gradient of 0.bias"
    assert gradients in labels[Collective]
    assert gradients in labels[Launch], "the kernel that packs them"
    assert all(each.label for each in works)


def test_activations_name_their_module(context: Any) -> None:
    module, _ = placed_gpt2(dmc.plan(TP2).use(plans.megatron_gpt2("tp")), context)
    ledger = movements_of(module)
    labels = {each.label for each in _planned(module).programs[0].commands if isinstance(each, Collective)}
    block = "transformer.h.0"
    assert {f"{block}.attn.c_proj", f"{block}.mlp.c_proj", f"{block}.mlp.c_fc, backward"} <= labels
    assert "" not in labels
    assert {(f"{block}.attn.c_proj",) * 2, (f"{block}.mlp.c_fc, backward",) * 2} <= _paths(module)
    # By these names the ledger knows what asked for them.
    assert {part for label in labels for part in label.split("; ")} <= {entry.label for entry in ledger.entries}
    assert ledger.whys()[f"{block}.attn.c_proj"] == f"{block}.attn.c_proj#aten.add.Tensor"


def _loss_in(file: str, line: int) -> Any:
    scope: dict[str, Any] = {}
    exec(compile("\n" * line + LOSS, file, "exec"), scope)
    return scope["loss"]


def test_a_plan_does_not_depend_on_where_the_code_lies(context: Any) -> None:
    here, there = (_mlp(ZERO2, context, _loss_in(*place)) for place in (("/a/one.py", 0), ("/b/two.py", 7)))
    assert here.digest() == there.digest()
    # The loss gives back what the layer made, as it broadcasts to one shape; the layer's gradients are not its own.
    assert {"loss", "2, backward"} <= {each.label for each in here.programs[0].commands if isinstance(each, Launch)}
    labels = {each.label for each in here.programs[0].buffers}
    assert not [label for label in labels if "/" in label or "<" in label]


def test_generated_code_is_no_place() -> None:
    example = (torch.zeros(4, 4), torch.zeros(4, 4))
    graph = capture(nn.Linear(4, 4), nn.functional.mse_loss, example, None).graph.graph
    places = [origin.of_exported_node(node, MODEL) for node in graph.nodes if node.op == "call_function"]
    assert {place.module for place in places} == {"", "loss"}
    assert {place.file for place in places} == {__file__}


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ('"h.3.attn#aten.mm, backward"("gpt.py":12:0)', "h.3.attn, backward"),
        ('callsite("#aten.amax" at "h.3#dmc.gelu")', "h.3"),
        ('callsite("#aten.amax" at "#dmc.gelu, backward"("gpt.py":12:0))', "#dmc.gelu, backward"),
        ('fused["#aten.mul", "h.1#aten.mm"]', "h.1"),
        ('"gpt.py":12:0', ""),
        ("unknown", ""),
    ],
)
def test_the_path_of_a_location(location: str, path: str, context: Any) -> None:
    module = ir.Module.parse(f"module {{}} loc({location})", context)
    assert module_path(module.operation.location) == path


def test_many_tensors_in_few_words() -> None:
    names = [f"h.{i}.w" for i in range(24)]
    assert short("") == ""
    assert short("h.1, backward") == "h.1, backward"
    assert short("a; b; gradient of c") == "a, b, gradient of c"
    assert short("; ".join(f"gradient of {name}" for name in names)) == "gradient of h.0.w, …, h.23.w (24 tensors)"
    assert title_of(Launch(0, "k", (), (), label="; ".join(names))) == "h.0.w, …, h.23.w (24 tensors)"
