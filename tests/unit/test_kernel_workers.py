"""Recipes are compiled in processes of their own; one that takes its process down is found alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmc.cache import Cache, using
from dmc.errors import CodegenError, DmcError
from dmc.kernels import workers
from dmc.kernels.code import KernelCode
from dmc.kernels.problem import TensorType, problem
from dmc.kernels.recipe import Call, Recipe, operands, results
from dmc.kernels.workers import Request, compile_all

VECTOR = TensorType("f32", (256,))
PROBLEM = problem("region", (VECTOR,), (VECTOR,))
HEAD = "import triton\nimport triton.language as tl\n"
DOUBLE = f"""{HEAD}
@triton.jit
def double(x_at, y_at):
    i = tl.arange(0, 256)
    tl.store(y_at + i, 2.0 * tl.load(x_at + i))
"""


def _request(source: str) -> Request:
    call = Call("generated.double", 1, (*operands(0), *results(0)), None, source=source)
    return Request(PROBLEM, Recipe((call,)))


def test_a_recipe_that_dies_or_fails_is_found_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MOST", 1)  # One process is asked for all.
    dies = _request(f"import os\nos._exit(3)\n{DOUBLE}")
    fails = _request(DOUBLE.replace("2.0 *", "unknown *"))
    answers = compile_all([_request(DOUBLE), dies, fails, _request(DOUBLE.replace("2.0", "3.0"))])
    assert [type(each) for each in answers] == [KernelCode, CodegenError, DmcError, KernelCode]
    died, failed = answers[1], answers[2]
    assert isinstance(died, DmcError) and "crashes Triton's compiler" in died.fact
    assert isinstance(failed, DmcError) and "does not compile" in failed.fact
    first, last = answers[0], answers[3]
    assert isinstance(first, KernelCode) and isinstance(last, KernelCode)
    assert first.entries[0].cubin != last.entries[0].cubin


def test_a_recipe_that_hangs_is_found_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_MOST", 1)
    monkeypatch.setattr(workers, "PATIENCE_S", 4.0)
    hangs = _request(f"import time\ntime.sleep(60)\n{DOUBLE}")
    late, made = compile_all([hangs, _request(DOUBLE.replace("2.0", "4.0"))])
    assert isinstance(late, CodegenError) and late.how == "late" and isinstance(made, KernelCode)


def test_answers_are_kept_but_for_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dies, fails = _request(f"import os\nos._exit(3)\n{DOUBLE}"), _request(DOUBLE.replace("2.0 *", "unknown *"))
    asked = [_request(DOUBLE), dies, fails]
    with using(Cache(tmp_path)):
        first = compile_all(asked)
        monkeypatch.setattr(workers, "_compiled", lambda requests: [f"made {len(requests)}"] * len(requests))
        code, crash, refusal = compile_all(asked)
    assert code == first[0] and isinstance(code, KernelCode)
    assert str(refusal) == str(first[2]) and isinstance(refusal, DmcError)
    assert crash == "made 1"


def test_nothing_is_compiled_where_nothing_is_asked_for() -> None:
    assert compile_all([]) == []
