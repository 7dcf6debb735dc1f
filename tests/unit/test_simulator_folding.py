"""Ranks that do the same at the same time are simulated once, with the times that all have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from dmc.machine import Machine, machine
from dmc.program import Job, Kernel, Launch, Program
from dmc.program.classes import Class
from dmc.program.program import Variants
from dmc.simulator import simulate
from dmc.simulator.folding import folded
from dmc.simulator.population import Population
from tests.hand_made_jobs import DP, TP, Rank, job_of, round_machine
from tests.random_jobs import random_job
from tests.unit.test_classes import PIPELINE

MACHINES = {
    "one node": round_machine(),
    "nodes of two": round_machine(slowdown=1.5, per_node=2),
    "nodes of three": round_machine(per_node=3),
    "one memory": round_machine(memory=True, shared=True),
    "a device for each of two": round_machine(per_node=2, shared=True),
    "node8": machine("node8"),
}


def _is_folded(population: Population) -> bool:
    return population.copies > 1


def _assert_same_times(job: Job, on: Machine) -> int:
    """Returns how many ranks were simulated."""
    once, each = simulate(job, on, fold=True), simulate(job, on)
    assert once.ranks == each.ranks == len(once.programs) * once.copies
    for own in job.classes:
        # Those who stand for themselves where a class was not folded.
        for rank in own.ranks:
            simulated = rank if rank in once.programs else own.ranks[0]
            found = sorted((span.command, span.start, span.end) for span in once.by_rank[simulated])
            expected = sorted((span.command, span.start, span.end) for span in each.by_rank[rank])
            assert [time for one in found for time in one] == pytest.approx([time for one in expected for time in one])
    return len(once.programs)


@pytest.mark.parametrize("on", MACHINES)
def test_folded_ranks_have_the_times_of_all(on: str) -> None:
    played = {job.size: _assert_same_times(job, MACHINES[on]) for job in map(random_job, range(60))}
    assert {1, 2, 4} <= set(played)


def test_random_jobs_are_folded() -> None:
    jobs = [job for job in map(random_job, range(60)) if job.size > len(job.classes)]
    found = [_is_folded(folded(job, MACHINES["one node"])) for job in jobs]
    assert len(jobs) > 20 and all(found)
    assert {bool(job.stages) for job in jobs} == {True, False}


def test_stages_are_folded_each() -> None:
    assert _assert_same_times(PIPELINE, round_machine()) == 2


def _with_groups(groups: Sequence[Sequence[int]]) -> Job:
    """Groups of three along tp."""
    mine = [next(group for group in groups if rank in group) for rank in range(6)]
    ranks = [Rank(rank).launch(20).reduce(30, 1, mine[rank], lane=TP).launch(5) for rank in range(6)]
    return job_of(*ranks, mesh={"dp": 2, "tp": 3})


def test_groups_that_lie_differently_on_nodes_are_not_folded() -> None:
    job = _with_groups([(0, 1, 2), (3, 4, 5)])
    assert len(job.classes) == 1
    assert _is_folded(folded(job, round_machine(per_node=3)))
    # Ranks 0 to 2 are on one node, ranks 3 to 5 on two.
    assert not _is_folded(folded(job, round_machine(per_node=4)))
    assert _assert_same_times(job, round_machine(per_node=4)) == 6


def test_kernels_of_other_times_are_not_folded() -> None:
    job = job_of(*(Rank(rank).launch(20).reduce(8, 1) for rank in (0, 1)))
    (own,) = job.classes

    def with_second(name: str) -> Job:
        first, *others = own.program.commands
        assert isinstance(first, Launch)
        commands = (replace(first, variants=Variants(("dp",), (first.kernel, name))), *others)
        kernels = {**job.kernels, "slower": replace(_kernel(job), flops=40), "as fast": _kernel(job)}
        return replace(job, kernels=kernels, classes=(Class(own.ranks, replace(own.program, commands=commands)),))

    assert _assert_same_times(with_second("as fast"), round_machine()) == 1
    assert _assert_same_times(with_second("slower"), round_machine()) == 2


def _kernel(job: Job) -> Kernel:
    return job.kernels["k20"]


def test_classes_of_other_sizes_are_not_folded() -> None:
    """Since a machine that they share is shared by as many."""
    job = job_of(Rank(0).launch(1), Rank(1).launch(1), Rank(2).launch(2))
    assert [len(each.ranks) for each in job.classes] == [2, 1]
    assert _assert_same_times(job, round_machine(shared=True)) == 3


def test_a_group_without_the_first_rank_of_a_class_is_not_folded() -> None:
    """Ranks 0 and 3 exchange, and ranks 1 and 2: of two classes that these first ranks stand for none meets."""
    pairs = {0: (0, 3), 3: (0, 3), 1: (1, 2), 2: (1, 2)}
    programs = [Rank(rank).launch(3 if rank < 2 else 7).reduce(8, 1, pairs[rank], lane=DP) for rank in range(4)]
    plain = job_of(*programs, mesh={"dp": 4})
    channel = replace(plain.channels[0], groups=((0, 3), (1, 2)))
    job = Job.of({"dp": 4}, (channel, plain.channels[1]), plain.kernels, map(_program, programs))
    assert [each.ranks for each in job.classes] == [(0, 1), (2, 3)]
    assert _assert_same_times(job, round_machine()) == 4


def _program(rank: Rank) -> Program:
    return job_of(rank).program(rank.rank)
