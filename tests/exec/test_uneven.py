"""Dimensions that ranks do not divide: padded inside a step, and never seen outside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import dmc
from dmc import pipeline
from dmc.compilation import arranged, state_plan
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.machine import machine
from dmc.plans import Plan, Recipe
from dmc.target import targets
from tests import uneven
from tests.compiled import assert_same_bits, compile_case, model_state, train
from tests.large import large
from tests.models.case import Case

Build = Callable[[], Case]
QUICK = ("mlp tp3 dp2 zero3", "gpt2 tp4 sp")
MODELS: dict[str, tuple[Build, Callable[..., Recipe]]] = {
    "gpt2": (uneven.gpt2, dmc.plans.megatron_gpt2),
    "llama1": (partial(uneven.llama, 1), dmc.plans.megatron_llama),
    "llama2": (partial(uneven.llama, 2), dmc.plans.megatron_llama),
    "bert": (uneven.bert, dmc.plans.megatron_bert),
    "t5": (uneven.t5, dmc.plans.megatron_t5),
}


def _of_mlp(plan: Plan) -> Plan:
    plan = plan.shard("0.*", dim=0, axis="tp").shard("3.weight", dim=1, axis="tp")
    return plan.shard("5.weight", dim=0, axis="tp").shard("5.bias", dim=0, axis="tp")


def _meshes(tensor: Callable[[Plan], Plan], names: str = "") -> Iterator[tuple[str, Plan]]:
    for ranks in (2, 3, 4):
        yield f"tp{ranks}{names}", tensor(dmc.plan(dmc.Mesh(tp=ranks)))
        for zero in (1, 2, 3):
            plan = dmc.plan(dmc.Mesh(dp=2, tp=ranks)).data_parallel("dp", zero=zero)
            yield f"tp{ranks}{names} dp2 zero{zero}", tensor(plan)


def _cases() -> Iterator[Any]:
    found = [(f"mlp {name}", uneven.mlp, plan) for name, plan in _meshes(_of_mlp)]
    for model, (build, megatron) in MODELS.items():
        for sequence, names in ((False, ""), (True, " sp")):
            recipe = megatron("tp", sequence_parallel=sequence)
            found += [(f"{model} {name}", build, plan) for name, plan in _meshes(partial(_using, recipe), names)]
    structural = partial(_using, dmc.plans.megatron("tp"))
    found += [(f"vit {name}", uneven.vit, plan) for name, plan in _meshes(structural)]
    for name, build, plan in found:
        yield pytest.param(build, plan, id=name, marks=() if name in QUICK else large)


def _using(recipe: Recipe, plan: Plan) -> Plan:
    return plan.use(recipe)


@pytest.mark.parametrize(("build", "plan"), [*_cases()])
def test_five_steps_are_eagers(build: Build, plan: Plan) -> None:
    uneven.assert_trains(build, plan)


@pytest.mark.parametrize(
    ("rows", "ranks", "zero", "accumulate"),
    [(5, 2, 2, 1), pytest.param(6, 4, 0, 1, marks=large), pytest.param(10, 3, 3, 2, marks=large)],
)
def test_a_batch_that_ranks_do_not_divide(rows: int, ranks: int, zero: int, accumulate: int) -> None:
    """The loss is the mean over the rows that there are."""
    plan = dmc.plan(dmc.Mesh(dp=ranks)).data_parallel("dp", zero=zero)
    uneven.assert_trains(partial(uneven.mlp, rows), plan, accumulate)


def test_state_moves_between_meshes(tmp_path: Path) -> None:
    """A file of one mesh goes on under another, with the bits of all state."""
    case = uneven.mlp()
    optimizer = dmc.optim.AdamW(lr=0.01)
    three = compile_case(case, optimizer, plan=_of_mlp(dmc.plan(dmc.Mesh(tp=3))), progress=False)
    two = compile_case(case, optimizer, plan=dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp", zero=3), progress=False)
    batches = [case.example(seed) for seed in range(2)]
    train(three, batches)
    two.load_state_dict(three.state_dict())
    assert_same_bits(two.state_dict(), three.state_dict())
    held = [three.rank_state_dict(rank)["model"]["0.weight"].shape for rank in range(3)]
    assert held == [(3, 5), (3, 5), (1, 5)]
    three.save(tmp_path / "three.dmc")
    again = dmc.load(tmp_path / "three.dmc")
    assert_same_bits(again.state_dict(), three.state_dict())
    expected = train(again, batches)
    assert train(three, batches) == expected
    assert train(two, batches) == pytest.approx(expected, rel=1e-4)
    assert model_state(two)["0.weight"].shape == torch.Size([7, 5])


def test_draws_are_those_of_the_heads_that_there_are(context: Any) -> None:
    """Three heads over two ranks: dropout numbers them by three, not by four."""
    case = uneven.gpt2(words=29, width=12, heads=3, dropout=0.5)
    given = dmc.optim.SGD(lr=0.1), case.example(0), Precision.FP32, 1, 0, context
    imported = import_step(case.model, case.loss, *given)
    megatron = dmc.plan(dmc.Mesh(tp=2)).use(dmc.plans.megatron_gpt2("tp"))
    plan, factors, _ = arranged(megatron, imported, 1, machine("cpu"))
    state_plan(imported, plan, 1, targets("cpu")[0], factors)
    text = pipeline.run(imported.module, to_form="placed")["02-placed"]
    numbered = re.findall(r"whole_0 = (\d+) : i64, whole_1 = (\d+) : i64", text)
    assert numbered == [(str(uneven.ROWS), "3")] * 2
