"""Named schedules of pipelines: valid tables, the idle time of their formulas, the memory that they are known for."""

from __future__ import annotations

import itertools

import pytest

from dmc.errors import PlanError
from dmc.schedules import NAMES, Table, check, equal_costs, idle_formula, play, schedule, write_csv

CHUNKS = {
    **dict.fromkeys(("gpipe", "1f1b", "zb-h1", "zb-h2"), (1,)),
    **dict.fromkeys(("zb-v", "dualpipev"), (2,)),
    "interleaved": (2, 3, 4),
    "bfs": (1, 2, 3, 4),
}


def _can_have(name: str, ranks: int, microbatches: int) -> bool:
    return {
        "interleaved": microbatches % ranks == 0,
        "dualpipev": microbatches >= 2 * ranks,
    }.get(name, True)


def _sizes(name: str) -> list[tuple[int, int]]:
    return [(ranks, count) for ranks in range(1, 9) for count in range(1, 41) if _can_have(name, ranks, count)]


def test_every_name_is_tested() -> None:
    assert set(CHUNKS) == set(NAMES)


@pytest.mark.parametrize(("name", "chunks"), [(name, each) for name, counts in CHUNKS.items() for each in counts])
def test_named_schedules_are_valid(name: str, chunks: int) -> None:
    for ranks, microbatches in _sizes(name):
        table = schedule(name, ranks, microbatches, chunks)
        check(table, ranks * chunks, microbatches)
        assert table.microbatches == microbatches
        _check_order_of_micro_batches(table)


def _check_order_of_micro_batches(table: Table) -> None:
    """Sums over micro-batches have the order of a step on one rank."""
    micros: dict[tuple[int, str], list[int]] = {}
    for _, _, action in table.cells():
        part = "F" if action.kind == "F" else "W" if action.kind == "W" else "I"
        micros.setdefault((action.stage, part), []).append(action.micro)
    assert all(each == sorted(each) for each in micros.values())


@pytest.mark.parametrize(("name", "chunks"), [(name, each) for name, counts in CHUNKS.items() for each in counts])
@pytest.mark.parametrize("times", [(1.0, 1.0, 1.0), (1.0, 2.0, 1.5), (2.0, 2.0, 1.0)])
def test_the_bubble_is_the_formula_s(name: str, chunks: int, times: tuple[float, float, float]) -> None:
    for ranks, microbatches in itertools.product((2, 4, 8), (8, 16, 32)):
        expected = idle_formula(name, ranks, microbatches, chunks, *times)
        if expected is None:
            # ZB-H2 and the V schedules need about twice as many micro-batches as ranks, and the latter equal times.
            assert microbatches < 2 * ranks - 1 or len(set(times)) > 1
            continue
        played = play(schedule(name, ranks, microbatches, chunks), equal_costs(ranks * chunks, *times))
        assert played.bubble == pytest.approx(expected, rel=1e-9)


def test_idle_fractions_are_those_of_the_literature() -> None:
    cases = [
        *(("1f1b", 2, 8, 1, 11.1), ("1f1b", 4, 8, 1, 27.3), ("1f1b", 4, 16, 1, 15.8), ("1f1b", 8, 32, 1, 17.9)),
        *(("zb-h1", 2, 8, 1, 4.0), ("zb-h1", 4, 8, 1, 11.1), ("zb-h1", 4, 16, 1, 5.9), ("zb-h1", 8, 32, 1, 6.8)),
        *(("interleaved", 2, 8, 2, 5.9), ("interleaved", 4, 8, 4, 8.6), ("interleaved", 8, 32, 2, 9.9)),
    ]
    for name, ranks, microbatches, chunks, percent in cases:
        played = play(schedule(name, ranks, microbatches, chunks), equal_costs(ranks * chunks, 1, 1, 1))
        assert 100 * max(played.idle_fraction) == pytest.approx(percent, abs=0.05)


def test_1f1b_keeps_a_micro_batch_for_each_rank_behind() -> None:
    for ranks, microbatches in _sizes("1f1b"):
        kept = play(schedule("1f1b", ranks, microbatches), equal_costs(ranks, 1, 1, 1)).kept
        assert kept == tuple(min(microbatches, ranks - rank) for rank in range(ranks))


@pytest.mark.parametrize("times", [(3, 5, 2), (2, 5, 4), (5, 2, 3), (2, 3, 6), (1, 1, 1)])
@pytest.mark.parametrize("name", ["zb-h1", "zb-h2"])
def test_the_formulas_of_zero_bubble_hold_for_any_times(name: str, times: tuple[int, int, int]) -> None:
    for ranks, microbatches in itertools.product(range(1, 7), (11, 20)):
        bubble = play(schedule(name, ranks, microbatches), equal_costs(ranks, *times)).bubble
        assert bubble == idle_formula(name, ranks, microbatches, 1, *times)


def test_breadth_first_waits_for_its_first_micro_batch_where_there_are_few() -> None:
    for ranks, microbatches, chunks in itertools.product((2, 5), (1, 3, 4), (1, 2, 3)):
        bubble = play(schedule("bfs", ranks, microbatches, chunks), equal_costs(ranks * chunks, 1, 2, 3)).bubble
        assert bubble == idle_formula("bfs", ranks, microbatches, chunks, 1, 2, 3)


def test_zero_bubble_h1_keeps_no_more_than_1f1b_and_h2_twice_as_much() -> None:
    for ranks, microbatches in _sizes("zb-h1"):
        costs = equal_costs(ranks, 1, 1, 1)
        assert play(schedule("zb-h1", ranks, microbatches), costs).kept == (min(microbatches, ranks),) * ranks
        assert play(schedule("zb-h2", ranks, microbatches), costs).kept == (min(microbatches, 2 * ranks - 1),) * ranks


def test_v_schedules_keep_what_1f1b_keeps_and_dual_pipe_one_chunk_more() -> None:
    for ranks in range(1, 9):
        costs = equal_costs(2 * ranks, 1, 1, 1)
        assert max(play(schedule("zb-v", ranks, 4 * ranks, 2), costs).kept) == 2 * ranks
        assert max(play(schedule("dualpipev", ranks, 4 * ranks, 2), costs).kept) == 2 * ranks + 1


def test_gpipe_keeps_all_micro_batches() -> None:
    assert play(schedule("gpipe", 4, 12), equal_costs(4, 1, 1, 1)).kept == (12,) * 4


def test_interleaving_keeps_a_little_more_than_1f1b() -> None:
    for ranks, chunks in itertools.product((2, 4, 8), (2, 4)):
        kept = play(schedule("interleaved", ranks, 4 * ranks, chunks), equal_costs(ranks * chunks, 1, 1, 1)).kept
        assert max(kept) == (chunks + 1) * ranks - 1, "of `chunks * ranks` at 1F1B"


def test_idle_cells_show_where_ranks_wait() -> None:
    assert write_csv(schedule("1f1b", 2, 3)).split() == ["0F0,0F1,,0B0,0F2,0B1,,0B2", ",1F0,1B0,1F1,1B1,1F2,1B2"]
    assert write_csv(schedule("bfs", 2, 2, chunks=2)).split() == [
        "0F0,0F1,2F0,2F1,,,2B0,2B1,0B0,0B1",
        ",1F0,1F1,3F0,3F1,3B0,3B1,1B0,1B1",
    ]


@pytest.mark.parametrize(
    ("asked", "fact", "way_out"),
    [
        (("1f2b", 2, 4, 1), "schedule '1f2b': is unknown", "use one of gpipe, 1f1b"),
        (("1f1b", 0, 4, 1), "has 0 ranks", "at least 1"),
        (("1f1b", 2, 0, 1), "has 0 micro-batches", "at least 1"),
        (("bfs", 2, 4, 0), "has 0 chunks", "at least 1"),
        (("1f1b", 2, 4, 2), "has 2 chunks on each rank, and can have 1", "pass chunks=1, or use interleaved or bfs"),
        (("interleaved", 2, 4, 1), "has 1 chunk on each rank, and needs 2", "pass chunks=2 or more, or use 1f1b"),
        (("interleaved", 4, 6, 2), "has 6 micro-batches, which are not whole rounds of 4", "use 4 or 8 micro-batches"),
        (("zb-v", 2, 4, 1), "has 1 chunk on each rank, and needs 2", "pass chunks=2, or use zb-h1"),
        (("zb-v", 2, 4, 3), "has 3 chunks on each rank, and can have 2", "pass chunks=2, or use interleaved or bfs"),
        (("dualpipev", 4, 7, 2), "has 7 micro-batches, and needs 8 on 4 ranks", "use 8 micro-batches or more, or zb-v"),
        (("interleaved", 4, 3, 2), "has 3 micro-batches, which are not whole rounds of 4", "use 4 micro-batches"),
    ],
)
def test_what_a_schedule_cannot_have_is_refused(asked: tuple[str, int, int, int], fact: str, way_out: str) -> None:
    with pytest.raises(PlanError) as error:
        schedule(*asked)
    assert fact in str(error.value)
    assert way_out in error.value.hint
