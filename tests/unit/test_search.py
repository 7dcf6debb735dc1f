"""The search for a plan: candidates, shallow models, what is found, and what is said where nothing fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import dmc
from dmc.cli.main import main
from dmc.errors import MemoryCapError, PlanError
from dmc.search import Found, Problem, find, written
from dmc.search.automatic import problem_of
from dmc.search.candidates import Candidate, candidates_of
from dmc.search.facts import facts_of
from dmc.search.layers import Repeated, optimizer_of, repeated_layers, with_depth
from dmc.search.shallow import Estimates
from dmc.search.trial import Trials
from tests.models import build
from tests.models.gpt2 import build as gpt2
from tests.searched import problem


def test_equal_modules_in_a_row_are_layers() -> None:
    model = gpt2(0.0, layers=5).model
    assert repeated_layers(model) == (Repeated("transformer.h", 0, 5),)
    two = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
    assert repeated_layers(two) == (), "two layers are not worth cutting"
    mixed = nn.Sequential(nn.Linear(4, 8), *[nn.Linear(8, 8) for _ in range(3)], nn.GELU(), nn.GELU(), nn.GELU())
    assert repeated_layers(mixed) == (Repeated("", 1, 3),), "what has no state is no layer"


def test_a_copy_has_fewer_layers_and_the_original_none_fewer() -> None:
    model = gpt2(0.0, layers=5).model
    (kind,) = repeated_layers(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    cut, parameters = with_depth(model, {kind: 2})
    assert [name for name, _ in cut.named_modules() if name.count(".") == 2][-1] == "transformer.h.1"
    assert len(model.get_submodule("transformer.h")._modules) == 5  # pyright: ignore[reportPrivateUsage]
    assert all(each.is_meta for each in cut.parameters())
    assert not any(each.is_meta for each in model.parameters())
    own = optimizer_of(optimizer, parameters)
    held = {id(each) for group in own.param_groups for each in group["params"]}
    assert held == {id(each) for each in cut.parameters()}
    assert len(optimizer.param_groups[0]["params"]) > len(held)
    # Tied weights stay tied.
    assert cut.get_parameter("lm_head.weight") is cut.get_parameter("transformer.wte.weight")


def _of_gpt2(rows: int = 8, ranks: int = 4) -> tuple[list[Candidate], dict[str, str]]:
    case = gpt2(0.0, layers=3)
    tokens = torch.zeros(rows, 16, dtype=torch.int64)
    keywords: dict[str, Any] = {"model": case.model, "optimizer": dmc.optim.SGD(lr=0.1), "machine": f"h100x{ranks}"}
    given = problem_of(example={"input_ids": tokens, "labels": tokens}, **keywords)
    kept, pruned = candidates_of(given, facts_of(given))
    return kept, {each.what: each.reason for each in pruned}


def test_candidates_cover_the_factorings_and_say_what_cannot_be() -> None:
    kept, pruned = _of_gpt2()
    assert {(each.pp, each.dp, each.tp) for each in kept} == {
        (1, 4, 1),
        (1, 2, 2),
        (1, 1, 4),
        (2, 2, 1),
        (2, 1, 2),
    }
    assert {each.zero for each in kept if each.dp == 4} == {0, 1, 2, 3}
    assert {each.sequence for each in kept if each.tp == 4} == {False, True}
    assert pruned["pp=4 × 1"] == "stages: 4, but the model has 3 blocks"
    assert pruned["dp=2 × 8 micro-batches"] == "batch: 8 rows are not divisible by 16"
    _, pruned = _of_gpt2(rows=2)
    assert pruned["dp=4"] == "batch: 2 rows are not divisible by 4"
    kept, pruned = _of_gpt2(ranks=8)
    assert pruned["tp=8"] == "heads: 4 are not divisible by 8"
    assert not any(each.tp == 8 for each in kept)


def test_experts_are_split_where_there_are_some() -> None:
    case = build("moe", 0.0)
    keywords: dict[str, Any] = {
        "model": case.model,
        "loss": case.loss,
        "optimizer": dmc.optim.SGD(lr=0.1),
        "machine": "h100x2",
    }
    given = problem_of(example=case.example(0), **keywords)
    facts = facts_of(given)
    assert facts.experts > 1 and facts.expert_weights
    experts = [each for each in candidates_of(given, facts)[0] if each.experts]
    assert {each.dp for each in experts} == {2}
    assert "expert_parallel" in written(experts[0].plan(facts))


def test_a_written_plan_is_the_plan() -> None:
    given = problem(64, 4, 16)
    facts = facts_of(given)
    assert facts.norms == (".*.norm",)
    kept, _ = candidates_of(replace(given, ranks=4), facts)
    assert len(kept) > 10
    for each in [*kept, Candidate(dp=2, zero=3, again=True, host=True)]:
        plan = each.plan(facts)
        named: dict[str, object] = {}
        exec(written(plan), {"dmc": dmc}, named)
        assert named["plan"] == plan


def test_few_layers_say_what_all_of_them_take() -> None:
    given = problem(64, 4, 64, layers=7)
    plan = Candidate(dp=2, zero=2).plan(facts_of(given))
    estimate = Estimates(given).of(plan, 1)
    whole = Trials().planned(given, plan, 1)
    assert estimate.ns == pytest.approx(whole.ns, rel=0.05)
    assert estimate.bytes == pytest.approx(whole.bytes, rel=0.1)
    parts = whole.busy + whole.communication + whole.copies + whole.others
    assert parts == pytest.approx(whole.ns, rel=1e-6)


@pytest.fixture(scope="module")
def roomy() -> Found:
    return find(problem(64, 4, 1024, layers=2))


def test_with_room_the_batch_is_divided(roomy: Found) -> None:
    assert roomy.best.candidate == Candidate(dp=2)
    assert roomy.plan == dmc.plan(dmc.Mesh(dp=2)).data_parallel("dp")
    assert roomy.best.trial.ns == min(each.trial.ns for each in roomy.finals)
    best = roomy.ranking.best_ns
    assert all(bound >= best for _, bound in roomy.ranking.bounded)


def test_state_that_does_not_fit_is_divided() -> None:
    given = problem(256, 2, 256, layers=1)
    free = Trials().planned(given, Candidate(dp=2).plan(facts_of(given)), 1, is_estimate=True)
    # Weights, gradients and the optimizer's state are most of it.
    cap = int(0.7 * free.bytes)
    found = find(replace(given, memory_cap=cap))
    assert found.best.candidate.zero > 0 or found.best.candidate.tp == 2
    assert found.best.trial.bytes <= cap < free.state
    assert Candidate(dp=2) in {each.candidate for each in found.ranking.over}


def test_one_row_is_divided_by_hidden_units_and_the_same_each_time() -> None:
    given = problem(256, 1, 64, layers=2)
    found = find(given)
    assert found.best.candidate.tp == 2
    assert {each.what: each.reason for each in found.ranking.pruned}["dp=2"] == "batch: 1 rows are not divisible by 2"
    again = find(given)
    assert (again.plan, again.best.trial, again.ranking.fits) == (found.plan, found.best.trial, found.ranking.fits)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(MemoryCapError) as refusal:
        find(problem(256, 2, 512, memory_cap=8_000_000))
    assert "weights 5.27 MB, gradients 5.27 MB, divided over all ranks" in refusal.value.fact
    assert refusal.value.hint == "a cap of more than 10.54 MB, or 4 ranks; a smaller batch does not help"
    with pytest.raises(MemoryCapError) as refusal:
        find(problem(64, 1, 4096, layers=1, memory_cap=2_000_000))
    assert "no plan fits into 2.00 MB a rank; the one that needs least, tp=2" in refusal.value.fact
    assert "activations" in refusal.value.fact and "a cap of" in refusal.value.hint
    with pytest.raises(PlanError, match="batch: 3 rows are not divisible by 2"):
        find(replace(problem(64, 3, 8, layers=1, accumulate=2), model=nn.Linear(16, 4)))


def test_what_cannot_be_searched_is_refused() -> None:
    keywords: dict[str, Any] = {
        "model": nn.Linear(2, 2),
        "optimizer": dmc.optim.SGD(lr=0.1),
        "example": (torch.zeros(8, 2),),
    }
    with pytest.raises(PlanError, match="has no machine"):
        problem_of(**keywords)
    with pytest.raises(PlanError, match="machine cpu: has any number of ranks"):
        problem_of(**keywords, machine="cpu")
    with pytest.raises(PlanError, match="leave mesh= out"):
        problem_of(**keywords, machine="h100x2", mesh=dmc.Mesh(dp=2))
    several: dict[str, Any] = {**keywords, "example": [(torch.zeros(8, 2),), (torch.zeros(4, 2),)]}
    with pytest.raises(PlanError, match="list of several shapes"):
        problem_of(**several, machine="h100x2")
    with pytest.raises(PlanError, match="takes one number of micro-batches"):
        problem_of(**keywords, machine="h100x2", accumulate=[1, 2])


def test_the_command_prints_what_was_considered(
    roomy: Found, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Problem] = []

    def searched(problem: Problem, observer: object) -> Found:
        seen.append(problem)
        return roomy

    monkeypatch.setattr("dmc.search.find", searched)
    given = problem(64, 4, 16)
    made = {"model": given.model, "loss": given.loss, "optimizer": given.optimizer, "example": given.example}
    monkeypatch.setattr("dmc.cli.plan_search.function_of", lambda source: lambda: {**made, "plan": "written by hand"})
    command = ["plan", "--search", "step:make", "--machine", "h100x2", "--memory-cap", "2GB", "--quiet"]
    assert main(command) == 0
    assert (seen[0].machine, seen[0].ranks, seen[0].cap) == ("h100x2", 2, 2 * 10**9)
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1].split()[0] == "dp=2" and lines[1].endswith("a whole plan")
    assert any(line.endswith("a bound") and "≥" in line for line in lines)
    assert any(line.startswith("not possible: ") for line in lines)
    assert "\n".join(lines).endswith(written(roomy.plan))
    assert main(["plan"]) == 1
    assert "--search module:function" in capsys.readouterr().err
    assert main([*command, "file.dmc"]) == 1
