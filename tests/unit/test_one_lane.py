"""A plan in one lane: the same work on the same bytes, in program order, without waits."""

from __future__ import annotations

import msgspec

from dmc.lowering.stream.one_lane import in_one_lane
from dmc.lowering.stream.regions import regions_of
from dmc.program import Await, Record
from tests.hand_made_jobs import COPY, LANES, Rank, job_of


def test_the_same_work_in_order() -> None:
    rank = Rank().move(64, "input").record(0, COPY).launch(1, "first").wait(0).launch(2, "second").record(1)
    job = job_of(rank.wait(1, COPY).move(32, "output"))
    (program,) = in_one_lane(job).programs
    work = [each for each in job.programs[0].commands if not isinstance(each, Record | Await)]
    assert program.lanes == LANES[:1]
    assert list(program.commands) == [msgspec.structs.replace(each, lane=0) for each in work]
    assert (program.arenas, program.slots) == (job.programs[0].arenas, job.programs[0].slots)


def test_one_region_waits_for_nothing() -> None:
    rank = Rank().move(64).record(0, COPY).wait(0).launch(1).move(32, lane=COPY)
    assert len(regions_of(job_of(rank)).regions) > 1
    (region,) = regions_of(in_one_lane(job_of(rank))).regions
    assert (len(region.items), region.awaits) == (3, ())
