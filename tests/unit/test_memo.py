"""Answers are kept while they may be, and no longer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dmc.memo import Memo, kept, once, remembered, remembering

ROOT = Path(__file__).resolve().parents[2]


class _Counted:
    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, number: int) -> int | None:
        self.asked.append(number)
        if number < 0:
            raise ValueError(number)
        return None if number == 0 else number


def test_an_answer_is_found_once_meanwhile() -> None:
    counted = _Counted()
    with remembering(), remembering():
        assert [once(counted, number) for number in (1, 0, 1, 0, 2)] == [1, None, 1, None, 2]
    assert counted.asked == [1, 0, 2]


def test_nothing_is_kept_outside_or_from_before() -> None:
    counted = _Counted()
    assert once(counted, 1) == once(counted, 1) == 1
    for _ in range(2):
        with remembering():
            once(counted, 1)
    assert counted.asked == [1, 1, 1, 1]


def test_an_inner_block_does_not_forget() -> None:
    counted = _Counted()
    with remembering():
        with remembering():
            once(counted, 1)
        once(counted, 1)
    assert counted.asked == [1]


def test_a_refusal_is_repeated() -> None:
    counted = _Counted()
    with remembering():
        for _ in range(2):
            with pytest.raises(ValueError, match="-1"):
                once(counted, -1)
    assert counted.asked == [-1, -1]


def test_functions_do_not_share_answers() -> None:
    double, triple = remembered(lambda number: 2 * number), remembered(lambda number: 3 * number)
    with remembering():
        assert [double(2), triple(2), double(2)] == [4, 6, 4]


def test_what_was_not_asked_for_longest_is_forgotten() -> None:
    counted, memo = _Counted(), Memo[int, int | None](2)
    # Of 1, 0 and 2 the first was asked for again.
    assert [memo.of(number, counted, number) for number in (1, 0, 1, 2, 1, 0)] == [1, None, 1, 2, 1, None]
    assert counted.asked == [1, 0, 2, 0]


def test_answers_are_kept_and_found_one_by_one() -> None:
    memo = Memo[str, int](2)
    memo.keep("a", 1)
    memo.keep("b", 2)
    assert memo.find("a") == 1
    memo.keep("c", 3)
    assert [memo.find(key) for key in "abc"] == [1, None, 3]


def test_a_function_keeps_its_last_answers_and_no_errors() -> None:
    counted = _Counted()
    function = kept(2)(counted.__call__)
    for number in (1, 2, 1, 3, 1):
        assert function(number) == number
    for _ in range(2):
        with pytest.raises(ValueError, match="-1"):
            function(-1)
    assert counted.asked == [1, 2, 3, -1, -1]


@pytest.mark.parametrize("path", sorted((ROOT / "dmc").rglob("*.py")), ids=str)
def test_there_is_one_mechanism_in_memory(path: Path) -> None:
    # The runtime is without the compiler's base; elsewhere `functools.cache` is for constants that are made late.
    if path.is_relative_to(ROOT / "dmc" / "runtime"):
        return
    text = path.read_text(encoding="utf-8")
    said = re.findall(r"\blru_cache\b|\bfrom functools import .*\bcache\b|\bfunctools\.cache\b", text)
    late = re.findall(r"@functools\.cache\n *def \w+\(\)", text)
    assert len(said) == len(late), f"{path}: use dmc.memo.kept, or a Memo"
