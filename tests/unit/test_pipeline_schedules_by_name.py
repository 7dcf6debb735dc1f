"""The schedule "searched" of a plan: made for its stages, in no more memory than a named one."""

from __future__ import annotations

import pytest

from dmc.schedules import Costs, equal_costs, layout, play, schedule, searched_by_name


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_by_name_it_is_made_for_its_stages_and_keeps_no_more(chunks: int) -> None:
    """The last of four ranks has a head: its stage takes half as long again."""
    stages = 4 * chunks
    times = [1.0] * (stages - 1) + [1.5]
    costs = Costs(times, times, times, kept=times)
    found, named = (play(table, costs) for table in (searched_by_name(costs, 4, 8), layout(4, 8, chunks)))
    assert found.makespan < named.makespan
    assert max(found.peak) <= max(named.peak)
    assert searched_by_name(costs, 4, 8) == searched_by_name(costs, 4, 8)


@pytest.mark.parametrize(("ranks", "microbatches"), [(2, 8), (4, 8), (4, 16)])
def test_by_name_it_is_as_fast_as_names_that_keep_no_more(ranks: int, microbatches: int) -> None:
    costs = equal_costs(ranks, 1, 1, 1)
    found = play(searched_by_name(costs, ranks, microbatches), costs)
    others = [play(schedule(name, ranks, microbatches), costs) for name in ("1f1b", "gpipe", "zb-h1", "zb-h2")]
    kept = max(others[0].peak)
    assert found.makespan <= min(each.makespan for each in others if max(each.peak) <= kept)
