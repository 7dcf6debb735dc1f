"""Answers are kept while they may be, and no longer."""

from __future__ import annotations

import pytest

from dmc.memo import once, remembered, remembering


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
