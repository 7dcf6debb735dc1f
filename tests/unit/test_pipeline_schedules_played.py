"""Tables played: starts, ends and messages, what is kept and when it is freed, which costs are refused."""

from __future__ import annotations

import pytest

from dmc.errors import PlanError
from dmc.schedules import Action, Costs, equal_costs, play, read_csv, schedule

SPLIT = "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n"


def test_an_action_starts_when_its_rank_and_what_it_needs_allow() -> None:
    played = play(read_csv(SPLIT), Costs((2, 3), (4, 5), (6, 7), message=1))
    assert [(str(span.action), span.start, span.end) for span in played.spans[0]] == [
        *(("0F0", 0, 2), ("0F1", 2, 4), ("0I0", 12, 16), ("0W0", 16, 22), ("0I1", 22, 26), ("0W1", 26, 32)),
    ]
    assert [(str(span.action), span.start, span.end) for span in played.spans[1]] == [
        *(("1F0", 3, 6), ("1I0", 6, 11), ("1F1", 11, 14), ("1I1", 14, 19), ("1W0", 19, 26), ("1W1", 26, 33)),
    ]
    assert played.makespan == 33
    assert played.busy == (24, 30)
    assert played.idle == (9, 3)
    assert played.idle_fraction == (9 / 33, 3 / 33)


def test_the_period_counts_from_the_latest_first_start() -> None:
    # Rank 0 works from 0 to 32. Rank 1 starts at 3: it passes a gradient on, so no later.
    played = play(read_csv(SPLIT), Costs((2, 3), (4, 5), (6, 7), message=1))
    assert played.period == 32
    assert played.bubble == 32 - 30
    # Nobody waits for the forward of rank 1 before the end: it can be put off.
    slow = play(read_csv("0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n"), Costs((3, 1), (1, 1), (0, 0)))
    assert slow.spans[1][0].start == 3
    assert slow.makespan == 9 + 1 + 3 + 1
    assert slow.period == slow.makespan


def test_a_first_start_that_nobody_waits_for_is_put_off() -> None:
    rows = "0F0,0F1,0B0,0B1\n1F0,1F1,1I0,1I1,1W0,1W1"
    played = play(read_csv(rows), Costs((2, 1), (1, 1), (1, 5)))
    assert (played.spans[1][0].start, played.spans[1][-1].end) == (2, 17)
    # 1F0 need not end before 4, when 1F1 can start; rank 0 ends at 10 all the same.
    assert played.period == 17 - 3


def test_a_backward_takes_the_time_of_its_two_halves_and_a_message_within_a_rank_none() -> None:
    played = play(read_csv("0F0,1F0,1B0,0B0"), Costs((1, 2), (3, 4), (5, 6), message=100))
    assert [span.end for span in played.spans[0]] == [1, 3, 13, 21]
    assert played.makespan == played.period == 21
    assert played.bubble == 0


def test_what_is_kept_is_freed_by_the_backward_or_by_its_halves() -> None:
    whole = play(schedule("1f1b", 2, 4), Costs((1, 1), (1, 1), (1, 1), kept=(10, 7)))
    assert whole.kept == (2, 1)
    assert whole.peak == (20, 7)
    all_of_it = play(read_csv(SPLIT), Costs((1, 1), (1, 1), (1, 1), kept=(10, 7)))
    assert all_of_it.kept == (2, 2)
    assert all_of_it.peak == (20, 14)
    # Between 1I0 and 1W0, 3 of 7 are still kept.
    in_part = play(read_csv(SPLIT), Costs((1, 1), (1, 1), (1, 1), kept=(10, 7), kept_for_weights=(10, 3)))
    assert in_part.kept == (2, 2)
    assert in_part.peak == (20, 10)


def test_memory_is_in_pairs_without_bytes() -> None:
    played = play(schedule("gpipe", 2, 5), equal_costs(2, 1, 1, 1))
    assert played.peak == played.kept == (5, 5)


def test_deadlocks_are_named_action_by_action() -> None:
    with pytest.raises(PlanError) as error:
        play(read_csv("0F0,0B0\n1B0,1F0\n2F0,2B0"), equal_costs(3, 1, 1, 1))
    assert "rank 0, 0B0, backward of stage 0, micro-batch 0: a deadlock" in str(error.value)
    assert "rank 0 in 0B0 for 1B0 of rank 1; rank 1 in 1B0 for 1F0 of rank 1 and 2B0 of rank 2; " in str(error.value)
    assert "rank 2 in 2F0 for 1F0 of rank 1" in str(error.value)
    with pytest.raises(PlanError, match=r"every rank waits: rank 0 in 0W0 for 0I0 of rank 0; rank 1 is done"):
        play(read_csv("0F0,0W0,0I0\n1F0,1B0"), equal_costs(2, 1, 1, 1))


def test_costs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PlanError, match=r"costs: are of 3 stages, the table has 2"):
        play(schedule("1f1b", 2, 2), equal_costs(3, 1, 1, 1))
    with pytest.raises(PlanError, match=r"costs, backward_weights: has 1 numbers, forward 2"):
        Costs((1, 1), (1, 1), (1,))
    with pytest.raises(PlanError, match=r"costs, kept: has 3 numbers"):
        Costs((1, 1), (1, 1), (1, 1), kept=(1, 1, 1))
    with pytest.raises(PlanError, match=r"costs, kept_for_weights: 3 of stage 1 is more than the 2 that it keeps"):
        Costs((1, 1), (1, 1), (1, 1), kept=(4, 2), kept_for_weights=(4, 3))
    with pytest.raises(PlanError, match=r"costs, message: -1 is below zero"):
        Costs((1, 1), (1, 1), (1, 1), message=-1)


def test_actions_have_the_name_of_their_cell() -> None:
    assert str(Action("I", 12, 3)) == "12I3"
    assert Action("I", 12, 3).in_words() == "12I3, gradient of inputs of stage 12, micro-batch 3"
