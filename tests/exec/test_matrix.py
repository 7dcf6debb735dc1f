"""A few of the models under plans; `python -m tests.matrix`, which `make matrix` calls, runs all of them."""

from __future__ import annotations

import pytest

from tests import matrix

# What is not elsewhere: data parallelism and ZeRO are in test_rehearsal, test_shapes and test_evaluation.
CASES = (
    ("llama", "sp2"),
    ("moe", "dp2×ep2"),
)
# Under the others `make matrix` compares another schedule, too.
RESCHEDULED = ("dp2×ep2",)


@pytest.mark.parametrize(("model", "plan"), CASES)
def test_trains_as_one_rank(model: str, plan: str) -> None:
    sent, ratio = matrix.check(model, plan, reschedule=plan in RESCHEDULED)
    assert sent > 0
    assert 1.0 <= ratio <= matrix.ARENA


def test_every_case_has_a_plan() -> None:
    found = set(matrix.cases())
    assert set(CASES) <= found
    others = {"dp4", "zero1", "zero2", "zero3", "tp2", "tp4", "dp2×tp2", "zero2×tp2"}
    assert {plan for _, plan in found} == {plan for _, plan in CASES} | others
