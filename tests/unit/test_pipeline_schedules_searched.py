"""Searched schedules: valid, under their caps, no slower than named ones, as good as an integer program's; refusals."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dmc.errors import DmcError, PlanError
from dmc.schedules import NAMES, Costs, Effort, Table, check, equal_costs, play, schedule, searched
from dmc.schedules.search.greedy import Rules, greedy
from dmc.schedules.search.joined import as_table
from dmc.schedules.search.problem import Problem
from dmc.schedules.search.program import solve
from dmc.schedules.search.timing import timed
from dmc.schedules.table import in_a_loop, in_a_v

# No integer program, and few steps: for tests that need no optimum.
QUICK = Effort(timed=60_000, program=0)
HEURISTIC = Effort(program=0)


def _costs(draw: random.Random, stages: int) -> Costs:
    """Unequal stages, as those with an embedding or a head are."""
    base = [draw.choice((0.8, 1.0, 1.2)) for _ in range(3)]
    factors = [draw.choice((1.0, 1.0, 1.3)) for _ in range(stages)]
    forward, inputs, weights = ([time * factor for factor in factors] for time in base)
    return Costs(forward, inputs, weights, message=draw.choice((0.0, 0.1, 0.5)))


def _time(table: Table, costs: Costs, barrier: bool) -> float:
    played = play(table, costs)
    return played.makespan if barrier else played.period


def _named(ranks: int, microbatches: int, chunks: int) -> Iterator[Table]:
    for name in NAMES:
        with contextlib.suppress(PlanError):
            yield schedule(name, ranks, microbatches, chunks)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(1, 6),
    st.integers(1, 12),
    st.integers(1, 3),
    st.floats(1, 2.5),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_searched_is_valid_under_its_cap_and_never_behind_a_named_schedule(
    ranks: int, microbatches: int, chunks: int, room: float, barrier: bool, draw: random.Random
) -> None:
    costs = _costs(draw, ranks * chunks)
    cap = room * chunks * draw.choice((1, ranks))
    table = searched(costs, ranks, microbatches, cap, barrier=barrier, effort=QUICK)
    check(table, ranks * chunks, microbatches)
    assert max(play(table, costs).peak) <= cap
    time = _time(table, costs, barrier)
    for named in _named(ranks, microbatches, chunks):
        if max(play(named, costs).peak) <= cap:
            assert time <= _time(named, costs, barrier) * (1 + 1e-9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 5), st.integers(1, 10), st.integers(1, 3), st.randoms(use_true_random=False))
def test_rules_make_whole_rows_under_any_cap(ranks: int, microbatches: int, chunks: int, draw: random.Random) -> None:
    stages = ranks * chunks
    kept = [draw.randint(0, 9) for _ in range(stages)]
    costs = dataclasses.replace(
        _costs(draw, stages), kept=kept, kept_for_weights=[draw.randint(0, most) for most in kept]
    )
    ranks_of = in_a_v(ranks) if chunks == 2 and draw.random() < 0.5 else in_a_loop(ranks, chunks)
    least = [sum(kept[stage] for stage in range(stages) if ranks_of[stage] == rank) for rank in range(ranks)]
    caps = tuple(float(need + draw.randint(0, 2) * 5) for need in least)
    problem = Problem(costs, ranks_of, microbatches, caps, barrier=True)
    rules = Rules(
        (draw.choice((0.0, 2.0, math.inf)),) * ranks, draw.choice(("F", "I", "turns")), draw.choice((0.0, 1.0))
    )
    rows = greedy(problem, rules)
    table = as_table(problem, rows)
    check(table, stages, microbatches)
    assert all(peak <= cap for peak, cap in zip(play(table, costs).peak, caps, strict=True))
    assert sorted(itertools.chain(*rows)) == list(range(3 * stages * microbatches))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.integers(1, 6), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_rows_take_the_time_that_their_table_is_played_in(
    ranks: int, microbatches: int, two_chunks: bool, barrier: bool, draw: random.Random
) -> None:
    ranks_of = in_a_v(ranks) if two_chunks else in_a_loop(ranks, 1)
    problem = Problem(_costs(draw, len(ranks_of)), ranks_of, microbatches, (math.inf,) * ranks, barrier)
    rows = greedy(problem, Rules((math.inf,) * ranks, draw.choice(("F", "I", "turns")), 0.5))
    result = timed(problem, rows)
    assert result is not None
    assert result.time == pytest.approx(_time(as_table(problem, rows), problem.costs, barrier))
    assert result.time >= problem.bound * (1 - 1e-9)
    assert result.ends[result.last] == max(result.ends) or not barrier
    if ranks > 1 and microbatches > 1:
        crossed = [list(reversed(rows[0])), *rows[1:]]
        assert timed(problem, crossed) is None, "a deadlock"


def _words(problem: Problem, rank: int) -> Iterator[list[int]]:
    """All rows of a rank that take micro-batches in order and keep needs within the rank."""
    groups = [
        [problem.number(kind, stage, micro) for micro in range(problem.microbatches)]
        for stage in problem.stages_on(rank)
        for kind in range(3)
    ]
    chosen: list[int] = []

    def extend() -> Iterator[list[int]]:
        if len(chosen) == sum(map(len, groups)):
            yield list(chosen)
        for position, group in enumerate(groups):
            done = sum(number in chosen for number in group)
            if done < len(group) and (position % 3 == 0 or groups[position - 1][done] in chosen):
                chosen.append(group[done])
                yield from extend()
                chosen.pop()

    yield from extend()


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize(
    ("ranks_of", "microbatches", "cap"),
    [
        ((0, 1), 2, 2),
        ((0, 1), 3, 1),
        ((0, 1), 3, 2),
        ((0, 1), 3, 9),
        ((0, 1, 2), 2, 2),
        ((0, 1, 1, 0), 1, 2),
        ((0, 0), 2, 3),
    ],
)
def test_the_integer_program_finds_the_best_of_all_rows(
    ranks_of: tuple[int, ...], microbatches: int, cap: float, barrier: bool
) -> None:
    draw = random.Random(f"{ranks_of} {microbatches} {cap}")
    ranks = max(ranks_of) + 1
    problem = Problem(_costs(draw, len(ranks_of)), ranks_of, microbatches, (cap,) * ranks, barrier)
    rows = [[word for word in _words(problem, rank) if problem.fits(word, rank)] for rank in range(ranks)]
    tried = (timed(problem, list(each)) for each in itertools.product(*rows))
    best = min(each.time for each in tried if each is not None)
    # One micro-batch after the other: far from the best.
    start = greedy(problem, Rules((0.0,) * ranks, "I", 0.0))
    solved = solve(problem, start, nodes=10_000, seconds=60.0)
    found = timed(problem, solved.rows)
    assert found is not None
    assert found.time == pytest.approx(best, rel=1e-6)
    assert solved.bound == pytest.approx(best, rel=1e-5)


@functools.cache
def _small_problems() -> list[Problem]:
    """Problems that the integer program solves to the end in seconds."""
    draw = random.Random(7)
    problems: list[Problem] = []
    for ranks, chunks, microbatches in ((2, 1, 4), (3, 1, 4), (4, 1, 4), (2, 2, 2), (3, 2, 2), (3, 1, 5)):
        for barrier in (False, True):
            costs = _costs(draw, ranks * chunks)
            ranks_of = in_a_loop(ranks, 1) if chunks == 1 else in_a_v(ranks)
            cap = float(chunks * draw.choice((2, ranks, 2 * ranks - 1)))
            problems.append(Problem(costs, ranks_of, microbatches, (cap,) * ranks, barrier))
    return problems


@pytest.mark.parametrize("number", range(12))
def test_searched_without_it_is_within_a_percent_of_the_integer_program(number: int) -> None:
    problem = _small_problems()[number]
    table = searched(
        problem.costs,
        problem.ranks,
        problem.microbatches,
        problem.caps,
        ranks_of=problem.ranks_of,
        barrier=problem.barrier,
        effort=HEURISTIC,
    )
    time = _time(table, problem.costs, problem.barrier)
    solved = solve(problem, problem.rows_of(table), nodes=20_000, seconds=60.0)
    assert solved.bound * (1 - 1e-9) <= time <= 1.01 * solved.bound


def test_the_integer_program_follows_where_few_orders_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = Costs((1, 1, 1), (1, 1, 1), (1, 1, 1), message=0.5)
    searched(costs, 3, 3, 2)
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(DmcError, match=r"(?s)the package highspy is not installed.*pip install '.*\[compile\]'"):
        searched(costs, 3, 3, 2)
    searched(costs, 3, 9, 2)
    searched(costs, 3, 3, 2, effort=HEURISTIC)


def test_unequal_stages_and_caps_are_worth_a_search() -> None:
    # An embedding before and a head behind, and a rank with less memory.
    times = (1.2, *(1.0,) * 6, 1.4)
    costs = Costs(times, times, times, message=0.05)
    caps = (8, 8, 8, 8, 8, 8, 3, 3)
    table = searched(costs, 8, 32, caps, barrier=True)
    played = play(table, costs)
    assert all(peak <= cap for peak, cap in zip(played.peak, caps, strict=True))
    named = [play(each, costs) for each in _named(8, 32, 1)]
    same_cap = min(each.makespan for each in named if all(map(float.__le__, each.peak, map(float, caps))))
    assert played.makespan < 0.94 * same_cap


@pytest.mark.parametrize("barrier", [False, True])
def test_a_search_for_8_ranks_and_32_micro_batches_reaches_the_bound(barrier: bool) -> None:
    costs = equal_costs(8, 1.0, 1.2, 0.9)
    table = searched(costs, 8, 32, 24, barrier=barrier)
    bound = Problem(costs, table.ranks_of, 32, (24.0,) * 8, barrier).bound
    assert _time(table, costs, barrier) <= 1.01 * bound


def test_two_stages_on_each_rank_are_tried_in_a_v_too() -> None:
    costs = equal_costs(8, 1, 1, 1)
    table = searched(costs, 4, 8, 8)
    assert table.ranks_of == in_a_v(4)
    assert play(table, costs).bubble == 0
    assert play(searched(costs, 4, 8, 8, ranks_of=in_a_loop(4, 2)), costs).bubble > 0


def test_a_search_finds_the_same_every_time_and_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = Costs((1, 2, 1), (1, 1.5, 1), (0.5, 1, 1), message=0.1)
    assert searched(costs, 3, 6, 3) == searched(costs, 3, 6, 3)
    monkeypatch.setattr("dmc.schedules.search.searched.greedy", None)
    check(searched(costs, 3, 6, 3, effort=Effort(seconds=0.0)), 3, 6)


def test_halves_side_by_side_are_a_whole_backward() -> None:
    table = searched(equal_costs(2, 1, 1, 1), 1, 3)
    assert {action.kind for _, _, action in table.cells()} == {"F", "B"}


@pytest.mark.parametrize(
    ("arguments", "fact", "way_out"),
    [
        ({"ranks": 2, "memory": 0.5}, "rank 0: keeps at least 1, one", "memory that can be met is 1 on every rank"),
        ({"ranks": 1, "memory": 1}, "rank 0: keeps at least 2, one", "memory that can be met is 2 on every rank"),
        ({"ranks": 2, "memory": (3, 0)}, "rank 1: keeps at least 1, one", "memory that can be met is 1, 1"),
        ({"ranks": 2, "memory": (3, 3, 3)}, "memory has 3 caps for 2 ranks", "one a rank"),
        ({"ranks": 3, "memory": 1}, "2 stages cannot be dealt out evenly to 3 ranks", "cut the model in 3 stages"),
        ({"ranks": 0, "memory": 1}, "2 stages cannot be dealt out evenly to 0 ranks", "cut the model in 1 stages"),
        ({"ranks": 2, "memory": 1, "ranks_of": (0, 0)}, "ranks_of is (0, 0)", "each rank a stage"),
        ({"ranks": 2, "memory": 1, "microbatches": 0}, "has 0 micro-batches", "at least 1"),
    ],
)
def test_what_cannot_be_searched_is_refused(arguments: dict[str, Any], fact: str, way_out: str) -> None:
    with pytest.raises(PlanError) as error:
        functools.partial(searched, equal_costs(2, 1, 1, 1), **{"microbatches": 4, **arguments})()
    assert fact in str(error.value)
    assert way_out in error.value.hint


def test_the_smallest_memory_that_is_named_is_enough() -> None:
    costs = Costs((1,) * 4, (1,) * 4, (1,) * 4, kept=(5, 1, 2, 3))
    with pytest.raises(PlanError, match=r"the smallest memory that can be met is 8 on every rank"):
        searched(costs, 2, 3, 2, ranks_of=(0, 1, 1, 0))
    assert max(play(searched(costs, 2, 3, 8, ranks_of=(0, 1, 1, 0)), costs).peak) == 8
    with pytest.raises(PlanError, match=r"the smallest memory that can be met is 7 on every rank"):
        searched(costs, 2, 3, 2)
