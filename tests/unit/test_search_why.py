"""Questions about a found plan: its step beside that of the best plan that does otherwise, and what adds up to it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from dmc.cli.main import main
from dmc.errors import MemoryCapError, PlanError
from dmc.search import Answer, Found, Problem, find, why, why_not
from dmc.search.answer import parts_of
from dmc.search.candidates import Candidate, Placed
from dmc.search.facts import facts_of
from dmc.search.otherwise import weights_of
from dmc.search.question import question_of
from dmc.search.trial import Trials
from tests.models.gpt2 import build as gpt2
from tests.searched import blocks, problem


@pytest.fixture(scope="module")
def found() -> Found:
    return find(problem(64, 4, 1024, layers=3))


def _check_against_whole_plans(given: Problem, answer: Answer) -> None:
    """The difference is that of two whole plans, made anew, and its parts add up to it."""
    assert answer.other is not None and answer.difference is not None
    ours, theirs = (
        Trials().planned(given, each.plan, max(each.candidate.microbatches, 1), is_estimate=not each.is_exact)
        for each in (answer.found, answer.other)
    )
    assert answer.found.is_exact == answer.other.is_exact
    assert answer.difference.ns == pytest.approx(theirs.ns - ours.ns, abs=1e-3)
    assert sum(parts_of(answer.difference).values()) == pytest.approx(theirs.ns - ours.ns, abs=1e-3)
    assert answer.difference.bytes == theirs.bytes - ours.bytes == sum(answer.difference.held.values())


def test_the_parts_add_up_to_the_difference_of_whole_steps(found: Found) -> None:
    assert found.best.candidate == Candidate(dp=2)
    answer = why_not(found, "tp=2")
    _check_against_whole_plans(found.search.problem, answer)
    assert answer.other is not None and answer.other.candidate.tp == 2
    assert answer.difference is not None and answer.difference.ns > 0 and answer.difference.communication > 0
    lines = str(answer).splitlines()
    more = f"{answer.difference.ns * 1e-6:.3f} ms"
    assert (
        lines[0] == f"why not tp=2: the fastest plan that does otherwise, {answer.other.candidate}, takes {more} more"
    )
    assert lines[3].split() == ["step", *_ms(found.best.trial.ns), *_ms(answer.other.trial.ns), f"+{more[:-3]}", "ms"]
    assert lines[-2:] == ['    .use(dmc.plans.megatron("tp"))', ")"]


def _ms(ns: float) -> tuple[str, str]:
    return f"{ns * 1e-6:.3f}", "ms"


def test_weights_in_other_places_are_whole_plans_too(found: Found) -> None:
    answer = why(found, "up")
    _check_against_whole_plans(found.search.problem, answer)
    assert answer.other is not None
    (place,) = answer.other.candidate.placed
    assert place.pattern == ".*.up.weight" and place.axis == "dp"
    assert answer.other.candidate == replace(found.best.candidate, placed=(place,))
    assert f'.shard(".*.up.weight", dim={place.dim}, axis="dp")' in str(answer)
    assert "  found: *.up.weight [256, 64]: whole between steps, whole in use, optimizer's state whole" in str(answer)
    pieces = "[dp, -]" if place.dim == 0 else "[-, dp]"
    assert f"  other: *.up.weight [256, 64]: {pieces} between steps, {pieces} in use" in str(answer)


def test_what_the_plan_has_or_cannot_be_is_said(found: Found) -> None:
    assert str(why_not(found, "zero=0")) == "why not zero=0: the plan found is that: dp=2"
    answer = why_not(found, "tp=3")
    assert str(answer) == "why not tp=3: does not apply: only tp=1 or tp=2 can be"
    assert answer.other is None and answer.difference is None
    assert why_not(found, "tp=2 zero=1").reason == "does not apply: only tp=1 can be where zero=1"
    batch = "dp=1 × 8 micro-batches: batch: 4 rows are not divisible by 8"
    assert why_not(found, "8 micro-batches, zb-h1").reason == f"does not apply: {batch}"


def test_what_does_not_fit_is_named_with_the_smallest_cap_that_would() -> None:
    # Weights and gradients of a rank take 8.4 MB, unless they are divided.
    given = problem(256, 2, 16, layers=2, memory_cap=7_000_000)
    answer = why_not(find(given), "dp=2 zero=0")
    assert answer.other is None and answer.difference is None
    assert answer.reason.startswith("does not fit into 7.00 MB a rank: dp=2 optimizer on host holds weights 4.23 MB")
    enough, short = (int(each.replace(",", "")) for each in re.findall(r"([\d,]+) B would", answer.reason))
    assert answer.needed == enough > short > 8_460_000
    assert enough - short < 500_000
    plan = Candidate(dp=2, host=True).plan(facts_of(given))
    assert Trials().planned(given, plan, 1, cap=enough).bytes <= enough
    with pytest.raises(MemoryCapError):
        Trials().planned(given, plan, 1, cap=short)


def test_questions_are_read_as_they_and_candidates_are_written() -> None:
    assert question_of("tp=2, zero = 3").values == {"tp": 2, "zero": 3}
    assert question_of("no sequence recompute").values == {"sequence": False, "again": True}
    for each in (
        Candidate(pp=2, dp=2, zero=2, microbatches=8, schedule="interleaved", chunks=2),
        Candidate(dp=2, tp=2, zero=1, sequence=True, again=True, host=True),
    ):
        assert question_of(str(each)).holds(each)
        assert not question_of(str(each)).holds(replace(each, zero=0))


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "asks for nothing"),
        ("tpp=2", "'tpp=2' is nothing that a search chooses"),
        ("tp=2 fast", "'fast' is nothing that a search chooses"),
        ("tp=two", "'tp=two' is nothing"),
        ("tp=2 tp=4", "asks for two of tp"),
        ("recompute no recompute", "asks for two of recompute"),
        ("zero=4", "zero=4 is not a stage of ZeRO"),
        ("tp=0", "tp=0"),
    ],
)
def test_malformed_questions_are_refused(text: str, fact: str) -> None:
    with pytest.raises(PlanError) as refusal:
        question_of(text)
    assert refusal.value.place == f"why not '{text}'"
    assert fact in refusal.value.fact and refusal.value.hint


def test_paths_are_of_weights_in_all_equal_layers() -> None:
    model = gpt2(0.0, layers=5).model
    weights = weights_of(model, "h.*.mlp")
    assert weights.pattern == ".transformer.h.*.mlp.c_fc.weight|.transformer.h.*.mlp.c_proj.weight"
    assert weights.dims == 2, "biases stay where they are"
    assert weights_of(model, "lm_head").pattern == ".lm_head.weight"
    assert weights_of(model, "h.*.ln_1").dims == 1
    with pytest.raises(PlanError, match=r"'h.\*.mpl' matches no module or weight") as refusal:
        weights_of(model, "h.*.mpl")
    assert "transformer.h.*.mlp" in refusal.value.hint
    with pytest.raises(PlanError, match=r"is about 1 of 5 equal layers.*\n.*'transformer.h.\*.mlp.c_fc.weight'"):
        weights_of(model, "h.3.mlp.c_fc")
    with pytest.raises(PlanError, match=r"is about '6.weight', which is behind layers in one list"):
        weights_of(blocks(8, 5), "6")


def test_a_place_is_what_the_rules_of_the_plan_language_say() -> None:
    given = problem(64, 4, 16)
    plan = Candidate(dp=2, zero=2, placed=(Placed(".*.up.weight", 1, "dp"),)).plan(facts_of(given))
    assert [each.verb for each in plan.rules] == ["data_parallel", "replicate", "shard"]


def test_the_command_answers_behind_the_plan_and_refuses_before_it(
    found: Found, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    searched: list[Problem] = []

    def find_none(problem: Problem, observer: object) -> Found:
        searched.append(problem)
        return found

    monkeypatch.setattr("dmc.search.find", find_none)
    given = found.search.problem
    made: dict[str, Any] = {"model": given.model, "loss": given.loss, "optimizer": given.optimizer}
    monkeypatch.setattr("dmc.cli.plan_search.function_of", lambda source: lambda: {**made, "example": given.example})
    command = ["plan", "--search", "step:make", "--machine", "h100x2", "--quiet"]
    assert main([*command, "--why-not", "tp=3", "--why-not", "zero=0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [str(why_not(found, "tp=3")), "", str(why_not(found, "zero=0"))]
    assert main([*command, "--why-not", "tpp=2"]) == main([*command, "--why", "dwon"]) == 1
    error = capsys.readouterr().err
    assert "why not 'tpp=2'" in error and "'dwon' matches no module or weight" in error
    assert len(searched) == 1, "no search for a malformed question"
    assert main(["plan", "step.dmc", "--why-not", "tp=2"]) == 1
    assert "pass --search module:function too" in capsys.readouterr().err
