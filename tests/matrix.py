"""Models under plans: every case is planned and proven, and trains on all ranks, in this process, as one rank does.

`python -m tests.matrix` runs all of them, some at a time (`--jobs`), and writes the table into `docs/status.md`;
`tests/exec/test_matrix.py` runs a few.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

import dmc
from dmc import plans
from dmc.plans import Plan, Recipe
from tests.arenas import worst_ratio
from tests.compiled import assert_same_bits, clone_state, compile_case, model_state, train
from tests.models import build
from tests.tolerance import TOLERANCE, assert_losses_close, assert_states_close

STEPS = 3
# How much larger an arena may be than what is alive at one time.
ARENA = 1.05
DP4, TP2, TP4, DP2_TP2 = dmc.Mesh(dp=4), dmc.Mesh(tp=2), dmc.Mesh(tp=4), dmc.Mesh(dp=2, tp=2)
DP2_EP2 = dmc.Mesh(dp=2, ep=2)
MEGATRON: dict[str, Callable[..., Recipe]] = {
    "gpt2": plans.megatron_gpt2,
    "llama": plans.megatron_llama,
    "bert": plans.megatron_bert,
    "t5": plans.megatron_t5,
}
MODELS = ("gpt2", "llama", "bert", "t5", "vit", "resnet", "lstm", "moe")
STATUS = Path(__file__).parents[1] / "docs" / "status.md"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
# What one rank reaches depends on the order of sums; batch norm divides by variances of few numbers.
RATES = {"resnet": 0.01}


@dataclass(frozen=True)
class Result:
    """error: what went wrong, or "". sent: bytes in one step, over all ranks. ratio: arena over its lower bound."""

    model: str
    plan: str
    error: str
    sent: int
    ratio: float
    seconds: float


def plans_of(model: str) -> dict[str, Plan]:
    """The plans that apply to a model, by name."""
    found = {
        "dp4": dmc.plan(DP4).use(plans.data_parallel("dp")),
        "zero1": dmc.plan(DP4).use(plans.zero1("dp")),
        "zero2": dmc.plan(DP4).use(plans.zero2("dp")),
        "zero3": dmc.plan(DP4).use(plans.zero3("dp")),
    }
    if model in MEGATRON:
        megatron = MEGATRON[model]
        found |= {
            "tp2": dmc.plan(TP2).use(megatron("tp")),
            "tp4": dmc.plan(TP4).use(megatron("tp")),
            "dp2×tp2": dmc.plan(DP2_TP2).use(plans.data_parallel("dp")).use(megatron("tp")),
            "zero2×tp2": dmc.plan(DP2_TP2).use(plans.zero2("dp")).use(megatron("tp")),
            "sp2": dmc.plan(TP2).use(megatron("tp", sequence_parallel=True)),
        }
    if model == "moe":
        found["dp2×ep2"] = dmc.plan(DP2_EP2).use(plans.data_parallel("dp")).use(plans.expert_parallel("ep"))
    return found


def check(model: str, name: str, reschedule: bool = True) -> tuple[int, float]:
    """Trains under one plan; gives the bytes that a step sends, and how much larger its arena is than its lower bound.

    Raises AssertionError where the losses or the state differ
    from one rank's by more than the tolerance, where ranks differ that should hold the same, where a step is not
    proven, where an arena is too large, and where a second run, or another schedule of the same step (`reschedule`),
    differs in a bit.
    """
    plan = plans_of(model)[name]
    batches = [build(model, 0.0).example(seed) for seed in range(STEPS)]
    optimizer = dmc.optim.SGD(lr=RATES.get(model, 0.05), momentum=0.9, clip_grad_norm=1.0)
    case = build(model, 0.0)
    start = clone_state(case.model)
    one = compile_case(case, optimizer)
    expected = train(one, batches)
    step = compile_case(build(model, 0.0), optimizer, mesh=plan.mesh, plan=plan)
    before = step.state_dict()
    losses = train(step, batches)
    assert_losses_close(losses, expected, TOLERANCE["mesh"])
    trained = model_state(one)
    assert_states_close(start, model_state(step), {name: trained[name] for name in start}, TOLERANCE["mesh"])
    assert step.differing_replicas() == ()
    first = model_state(step)
    step.load_state_dict(before)
    assert train(step, batches) == losses, "a second run has other losses"
    assert_same_bits(model_state(step), first)
    if reschedule:
        other = compile_case(build(model, 0.0), optimizer, mesh=plan.mesh, plan=plan, machine="h200x4")
        assert _proven(step) != _proven(other), "both machines give one schedule, so nothing is compared"
        assert train(other, batches) == losses, "another schedule has other losses"
        assert_same_bits(model_state(other), first)
    ratio = worst_ratio(step.snapshot().job)
    assert ratio <= ARENA, f"the arena is {ratio:.3f} of what is alive in it"
    return step.ledger().bytes, ratio


def _proven(step: dmc.api.CompiledStep) -> str:
    """The digest of the job that a step's certificate is for."""
    return step.snapshot().certificate.digest


def cases() -> Iterator[tuple[str, str]]:
    """Every model with every plan that applies to it."""
    return ((model, name) for model in MODELS for name in plans_of(model))


def _run(case: tuple[str, str]) -> Result:
    model, name = case
    torch.set_num_threads(1)
    begin = time.perf_counter()
    try:
        (sent, ratio), error = check(model, name), ""
    except Exception as failure:  # Reported as what this case gave; the others run on.
        sent, ratio, error = 0, 0.0, f"{type(failure).__name__}: {failure}"
    return Result(model, name, error, sent, ratio, time.perf_counter() - begin)


def table(results: dict[tuple[str, str], Result]) -> str:
    """Markdown: a row for each plan, a column for each model."""
    names = list(dict.fromkeys(name for _, name in results))
    models = list(dict.fromkeys(model for model, _ in results))
    lines = ["| |" + "".join(f" {model} |" for model in models), "|---|" + "---|" * len(models)]
    cells = {name: [_cell(results.get((model, name))) for model in models] for name in names}
    return "\n".join([*lines, *(f"| {name} | {' | '.join(row)} |" for name, row in cells.items())])


def _cell(result: Result | None) -> str:
    if result is None:
        return "–"
    return "**fails**" if result.error else f"{result.sent / 1e6:.2f} MB, {result.ratio:.2f}"


def _write(text: str) -> None:
    status = STATUS.read_text(encoding="utf-8")
    between = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    assert between.search(status), f"{STATUS.name} has no place for the matrix"
    STATUS.write_text(between.sub(f"{BEGIN}\n{text}\n{END}", status), encoding="utf-8")


def main() -> int:
    """Runs the cases that are asked for; gives the number of those that failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--plans", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the table into docs/status.md")
    given = parser.parse_args()
    models, names = given.models.split(","), given.plans.split(",") if given.plans else None
    chosen = [(m, n) for m, n in cases() if m in models and (names is None or n in names)]
    results: dict[tuple[str, str], Result] = {}
    with get_context("spawn").Pool(given.jobs, maxtasksperchild=4) as pool:
        for result in pool.imap_unordered(_run, chosen):
            results[result.model, result.plan] = result
            said = result.error.splitlines()[0] if result.error else f"equal, {result.sent} B, arena {result.ratio:.3f}"
            print(f"{result.model} {result.plan}: {said} ({result.seconds:.0f} s)", flush=True)
    results = {case: results[case] for case in chosen}
    print(table(results))
    if given.write:
        _write(table(results))
    return sum(bool(result.error) for result in results.values())


if __name__ == "__main__":
    sys.exit(main())
