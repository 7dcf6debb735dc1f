"""Stages that take equally long, by estimated times of what a model's modules compute."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import nn

import dmc
from dmc._mlir import ir
from dmc.analysis.requests.cuts import times_of, with_balanced_cuts
from dmc.errors import PlanError
from dmc.importer.forward.precision import Precision
from dmc.importer.step import import_step
from dmc.machine import machine
from dmc.mesh import Mesh
from dmc.plans import with_balanced
from dmc.plans.rules import Pipeline
from tests.unit.test_plan_pipelines import BLOCK, MODULES


def _balanced(mesh: Mesh, times: dict[str, float], modules: tuple[str, ...] = MODULES) -> list[str]:
    """Of two rules, of which the pipeline alone changes."""
    rules = dmc.plan(mesh).replicate("embed.*").pipeline("pp", cut="balanced", microbatches=8).rules
    kept, cut = with_balanced(rules, mesh, modules, times)
    assert kept == rules[0]
    assert isinstance(cut, Pipeline)
    return [path.removeprefix(".") for path in cut.cut]


def test_balanced_stages_count_what_stands_beside_the_blocks() -> None:
    def starts(ranks: int, **beside: float) -> list[str]:
        return _balanced(Mesh(pp=ranks), {**beside, **{f"h.{layer}.fc": BLOCK for layer in range(4)}})

    assert starts(2) == ["h.2"]
    assert starts(4) == ["h.1", "h.2", "h.3"]
    assert starts(2, embed=2 * BLOCK) == ["h.1"]
    assert starts(2, embed=9 * BLOCK) == ["h.0"]
    assert starts(2, head=2 * BLOCK) == ["h.3"]
    assert starts(2, loss=2 * BLOCK) == ["h.3"]
    assert starts(5, embed=BLOCK) == ["h.0", "h.1", "h.2", "h.3"]
    message = "finds 3 blocks at which a stage may begin, but 5 stages want 4\n  hint: list the modules"
    with pytest.raises(PlanError, match=message):
        starts(5)


def test_blocks_are_members_of_outermost_lists() -> None:
    modules = ("", "down", "down.0", "down.0.layers", "down.0.layers.1", "down.1", "up.0", "up.0.0", "up.0.1")
    times = {"down.0.layers.1": 10.0, "down.1": 10.0, "up.0.0": 20.0, "up.0.1": 20.0}
    assert _balanced(Mesh(pp=3), times, modules) == ["down.1", "up.0"]


def test_times_are_those_of_what_modules_compute(context: ir.Context) -> None:
    """A head four times as wide takes as long as four blocks, rows of a table next to nothing, and a batch as long as
    its halves."""
    blocks, head = [nn.Linear(1024, 1024) for _ in range(3)], nn.Linear(1024, 4096)
    net = nn.Sequential(nn.Embedding(4096, 1024), *blocks, head)
    example = torch.zeros(4096, dtype=torch.int64), torch.zeros(4096, dtype=torch.int64)
    found: list[Mapping[str, float]] = []
    for parts in (1, 2):
        given = dmc.optim.SGD(lr=0.1), example, Precision.FP32, parts, 0, context
        step = import_step(net, nn.functional.cross_entropy, *given)
        found.append(times := times_of(step.module, step.modules, machine("h100x2")))
        # The first needs no gradient of its input.
        assert times["2"] == pytest.approx(times["3"])
        assert times["4"] == pytest.approx(4 * times["3"], rel=0.1)
        assert times["0"] < 0.1 * times["3"]
        assert _balanced(Mesh(pp=2), dict(times), tuple(step.modules)) == ["4"]
    assert sum(found[1].values()) == pytest.approx(sum(found[0].values()), rel=0.2)


class _Between(nn.Module):
    """A product of its own between two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(512, 512) for _ in range(2))
        self.own = nn.Parameter(torch.zeros(512, 512))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks[1](self.blocks[0](x) @ self.own)


def test_what_the_model_computes_itself_counts_for_the_module_before(context: ir.Context) -> None:
    example = torch.zeros(4096, 512), torch.zeros(4096, 512)
    given = dmc.optim.SGD(lr=0.1), example, Precision.FP32, 1, 0, context
    step = import_step(_Between(), nn.functional.mse_loss, *given)
    times = times_of(step.module, step.modules, machine("h100x2"))
    assert times.keys() <= {"blocks.0", "blocks.1"}
    # Forward and one gradient of the first, and the product between; its gradients come behind those of the second.
    assert times["blocks.0"] == pytest.approx(3 / 8 * sum(times.values()), rel=0.2)


def test_too_few_blocks_for_what_a_model_computes_are_refused(context: ir.Context) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    given = dmc.optim.SGD(lr=0.1), (torch.zeros(4, 4), torch.zeros(4, 4)), Precision.FP32, 2, 0, context
    step = import_step(net, nn.functional.mse_loss, *given)
    plan = dmc.plan(Mesh(pp=3)).pipeline("pp", cut="balanced")
    with pytest.raises(PlanError, match="finds 1 blocks at which a stage may begin, but 3 stages want 2"):
        with_balanced_cuts(plan, step.module, step.modules, machine("h100"))


def test_a_bias_does_not_make_a_product_of_narrow_values_slow(context: ir.Context) -> None:
    """In bf16-mixed a product with a bias is imported as one of widened values."""
    net = nn.Sequential(*(nn.Linear(1024, 1024, bias=has_bias) for has_bias in (True, False, True, True)))
    example = torch.zeros(4096, 1024), torch.zeros(4096, 1024)
    given = dmc.optim.SGD(lr=0.1), example, Precision.BF16_MIXED, 1, 0, context
    step = import_step(net, nn.functional.mse_loss, *given)
    times = times_of(step.module, step.modules, machine("h100x2"))
    assert times["2"] == pytest.approx(times["1"], rel=0.2)
