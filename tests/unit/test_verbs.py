"""Verbs of the schedule language: what they print, how they reach passes, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc._mlir import ir
from dmc.analysis.requests.verbs import VERBS, roots_of, verbs_of, write_verbs
from dmc.dialect.labels import module_path
from dmc.importer.capture.precisions import precisions
from dmc.importer.forward.precision import Precision as Kind
from dmc.importer.step import import_step
from dmc.passes.base import parse_pipeline, run_passes
from dmc.plans.verbs import Bucket, Decompose, Implementation, KeepApart, Overlap, Precision, Verb
from dmc.search import written
from dmc.step_function import find_step
from dmc.walk import walk
from tests.blocks import Blocks

PLAN = (
    dmc.plan(dmc.Mesh(dp=2))
    .data_parallel("dp", zero=2)
    .precision("h.*.norm|head", "fp32")
    .keep_apart("h.*")
    .decompose("h.0.attn")
    .implementation("h.*.mlp", "triton")
    .bucket(1 << 20)
    .overlap(False)
)


def test_a_plan_with_verbs_is_printed_and_read_back() -> None:
    text = written(PLAN)
    assert '    .precision("h.*.norm|head", "fp32")\n    .keep_apart("h.*")\n' in text
    assert '    .implementation("h.*.mlp", "triton")\n    .bucket(1048576)\n    .overlap(False)\n' in text
    scope: dict[str, Any] = {"dmc": dmc}
    exec(text, scope)
    assert scope["plan"] == PLAN


def test_verbs_belong_to_recipes_as_other_rules_do() -> None:
    recipe = dmc.plans.recipe("mine").keep_apart("h.*").bucket(5)
    assert [str(rule) for rule in dmc.plan(dmc.Mesh(dp=2)).use(recipe).rules] == [
        'mine: keep_apart("h.*")',
        "mine: bucket(5)",
    ]


@pytest.mark.usefixtures("context")
def test_verbs_are_in_the_text_of_a_form() -> None:
    module = ir.Module.parse(
        "module { func.func @step(%x: tensor<2xf32>) -> tensor<2xf32> {"
        '%y = math.exp %x : tensor<2xf32> loc("h.0.attn#aten.exp, backward")'
        "return %y : tensor<2xf32> } }"
    )
    said = (KeepApart("h.*"), Implementation("h.0.attn", "triton"), Bucket(5), Overlap(False))
    write_verbs(module, [*said, Precision("h.0", "fp32")])
    read = ir.Module.parse(str(module))
    kinds: tuple[type[Verb], ...] = (KeepApart, Implementation, Bucket, Overlap)
    assert tuple(each for kind in kinds for each in verbs_of(read, kind)) == said
    assert len(ir.ArrayAttr(read.operation.attributes[VERBS])) == len(said)
    assert verbs_of(read, Decompose) == ()


def test_the_outermost_module_counts() -> None:
    said = (KeepApart("h.*"), KeepApart("attn|.h"), KeepApart("head"))
    assert roots_of(said, "h.0.attn, backward") == ("h.0", "h", None)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(("pattern", "count"), [("k", 3), ("*", 3), ("other", 1)])
def test_products_around_attention_stay_apart(pattern: str, count: int) -> None:
    module = ir.Module.parse(_products_of_attention())
    module.operation.attributes[VERBS] = ir.Attribute.parse(f'[{{verb = "keep_apart", pattern = "{pattern}"}}]')
    run_passes(module, parse_pipeline("dm-merge-products"))
    assert sum(op.name == "linalg.matmul" for op in walk(find_step(module))) == count


def _products_of_attention() -> str:
    """Products of queries, keys and values, of modules q, k and v."""
    text = (Path(__file__).parents[1] / "passes" / "merge_products.mlir").read_text(encoding="utf-8")
    places = iter("qkv")
    lines = [line for line in text.partition("// -----")[0].splitlines() if not line.startswith("//")]
    return "\n".join(f'{line} loc("{next(places)}#aten.mm")' if "linalg.matmul" in line else line for line in lines)


def _narrow(plan: dmc.plans.Recipe, kind: Kind) -> set[str]:
    """The modules of which products have factors in bf16; in those of others all are in f32."""
    model = Blocks()
    example = torch.ones(4, 8), torch.zeros(4, dtype=torch.int64)
    with ir.Context() as context, ir.Location.unknown():
        dmc.dialect.load(context)
        with precisions(model, plan.rules, torch.bfloat16 if kind is Kind.BF16 else None):
            step = import_step(model, nn.functional.cross_entropy, dmc.optim.SGD(lr=0.1), example, kind, 1, 0, context)
        assert all("forward" not in vars(module) for module in model.modules())
        own = "bf16" if kind is Kind.BF16 else "f32"
        assert {spec.dtype for spec in step.signature.state if spec.role == "parameter"} == {own}
        products = [op for op in walk(step.module.operation) if op.name in ("linalg.matmul", "linalg.batch_matmul")]
        assert len(products) >= 2 * len(EVERY)
        narrow = [op for op in products if "bf16" in str(op.operands[0].type)]
        return {module_path(op.location).partition(", ")[0] for op in narrow}


EVERY = {"h.0.up", "h.0.down", "h.1.up", "h.1.down", "head"}


def test_precision_of_modules_in_steps_of_every_precision() -> None:
    assert _narrow(dmc.plan(), Kind.BF16_MIXED) == EVERY
    plan = dmc.plan().precision("h.1", "fp32").precision("h.1.up", "bf16")
    assert _narrow(plan, Kind.BF16_MIXED) == EVERY - {"h.1.down"}
    # A list of modules means those in it.
    plan = dmc.plan().precision(".h", "bf16-mixed").precision("down", "fp32")
    assert _narrow(plan, Kind.FP32) == {"h.0.up", "h.1.up"}
    assert _narrow(dmc.plan().precision("head|h.0", "fp32"), Kind.BF16) == {"h.1.up", "h.1.down"}


def test_a_module_has_its_own_forward_again_also_after_an_error() -> None:
    model = Blocks()
    vars(model.head)["forward"] = own = model.head.forward
    within = precisions(model, dmc.plan().precision("head|h.0", "bf16").rules, None)
    within.__enter__()
    assert model.head(torch.ones(2, 8)).dtype == torch.float32
    assert vars(model.head)["forward"] is not own
    assert not within.__exit__(RuntimeError, RuntimeError("inside"), None)
    assert vars(model.head)["forward"] is own
    assert "forward" not in vars(model.h[0])
