"""What holds for every job: bounds, sums without gaps, and equality with a naive model where nothing is shared."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmc.program import Await, Collective, Job, Launch, Move, Record
from dmc.simulator import simulate
from dmc.simulator.critical_path import critical_path
from dmc.simulator.use import lane_use, waits
from tests.hand_made_jobs import COMPUTE, COPY, DP, TP, Rank, job_of, round_machine

_WAYS = [(COMPUTE, DP), (DP, COMPUTE), (COPY, COMPUTE), (COMPUTE, COPY), (COPY, DP), (COMPUTE, TP), (TP, COMPUTE)]


@dataclass(frozen=True)
class _Step:
    """What every rank does next, each with its own size."""

    what: str
    sizes: tuple[int, ...]
    way: tuple[int, int]


_STEPS = st.builds(
    _Step,
    st.sampled_from(["launch", "launch", "move", "dp", "tp", "event", "event"]),
    st.tuples(*[st.integers(1, 50)] * 3),
    st.sampled_from(_WAYS),
)


@st.composite
def _jobs(draw: st.DrawFn, lanes: tuple[str, ...] = ("dp", "tp")) -> Job:
    """One to three ranks that issue the same things in the same order, so that nothing waits for ever."""
    count = draw(st.integers(1, 3))
    steps = [step for step in draw(st.lists(_STEPS, max_size=25)) if step.what not in {"dp", "tp"} - set(lanes)]
    ranks = [Rank(number) for number in range(count)]
    for index, step in enumerate(steps):
        for rank in ranks:
            _emit(rank, step, index, range(count))
    return job_of(*ranks)


def _emit(rank: Rank, step: _Step, index: int, members: range) -> None:
    match step.what:
        case "launch":
            rank.launch(step.sizes[rank.rank])
        case "move":
            rank.move(step.sizes[rank.rank])
        case "event":
            rank.record(index, step.way[0]).wait(index, step.way[1])
        case _:
            rank.reduce(step.sizes[0], index, members, lane=DP if step.what == "dp" else TP)


def _naive(job: Job, ns_per_byte: float = 1.0) -> float:
    """The length of the step where nothing slows anything down: rank by rank, again and again, as far as each gets."""
    members, done = len(job.programs), [0] * len(job.programs)
    lanes = [[0.0] * len(program.lanes) for program in job.programs]
    events: dict[tuple[int, int], float] = {}
    arrived: dict[int, list[int]] = {}
    while any(done[rank] < len(program.commands) for rank, program in enumerate(job.programs)):
        for rank, program in enumerate(job.programs):
            if done[rank] == len(program.commands):
                continue
            match command := program.commands[done[rank]]:
                case Launch():
                    lanes[rank][command.lane] += job.kernels[command.kernel].flops
                case Move():
                    lanes[rank][command.lane] += command.source.length
                case Record():
                    events[rank, command.event] = lanes[rank][command.lane]
                case Await():
                    lanes[rank][command.lane] = max(lanes[rank][command.lane], events[rank, command.event])
                case Collective():
                    _meet(command, rank, members, lanes, arrived, ns_per_byte)
            done[rank] += 1
    return max((time for own in lanes for time in own), default=0.0)


def _meet(
    command: Collective,
    rank: int,
    members: int,
    lanes: list[list[float]],
    arrived: dict[int, list[int]],
    ns_per_byte: float,
) -> None:
    # All ranks issue the same in the same order, so the last one to come is of the same round.
    group = arrived.setdefault(command.instance, [])
    group.append(rank)
    if len(group) < members:
        return
    sent = 2 * (members - 1) / members * command.count * ns_per_byte if members > 1 else command.count
    end = max(lanes[member][command.lane] for member in group) + sent
    for member in group:
        lanes[member][command.lane] = end


@given(_jobs(lanes=("dp",)))
def test_alone_it_is_the_naive_model(job: Job) -> None:
    assert simulate(job, round_machine()).step_ns == pytest.approx(_naive(job))


@given(_jobs(), st.sampled_from([1.0, 1.7]), st.booleans())
def test_sharing_only_makes_it_longer(job: Job, slowdown: float, shared: bool) -> None:
    assert simulate(job, round_machine(slowdown, shared=shared)).step_ns >= _naive(job) * (1 - 1e-9)


@given(_jobs(), st.sampled_from([1.0, 1.7]), st.booleans())
def test_the_critical_path_has_no_gaps(job: Job, slowdown: float, shared: bool) -> None:
    played = simulate(job, round_machine(slowdown, shared=shared))
    path = critical_path(played)
    assert [span.start for span in path] == [0.0, *[span.end for span in path]][: len(path)]
    assert sum(span.end - span.start for span in path) == pytest.approx(played.step_ns)


@given(_jobs(), st.sampled_from([1.0, 1.7]), st.booleans())
def test_lanes_and_waits_make_up_the_step(job: Job, slowdown: float, shared: bool) -> None:
    played = simulate(job, round_machine(slowdown, shared=shared))
    tolerance = 1e-9 * (played.step_ns + 1)
    for lane in lane_use(played):
        assert min(lane.busy, lane.waiting, lane.idle) >= -tolerance
    for rank in waits(played):
        parts = (rank.busy, rank.communication, rank.copies, rank.others)
        assert min(parts) >= -tolerance
        assert sum(parts) == pytest.approx(played.step_ns)


@given(_jobs(), st.sampled_from([1.0, 1.7]), st.booleans())
def test_everything_runs_once_in_order(job: Job, slowdown: float, shared: bool) -> None:
    played = simulate(job, round_machine(slowdown, shared=shared))
    assert played == simulate(job, round_machine(slowdown, shared=shared))
    for program in job.programs:
        own = played.by_rank[program.rank]
        work = [number for number, command in enumerate(program.commands) if not isinstance(command, Record | Await)]
        assert sorted(span.command for span in own) == work
        for lane in range(len(program.lanes)):
            spans = [span for span in own if span.lane == lane]
            assert [span.command for span in spans] == sorted(span.command for span in spans)
            assert all(one.end <= other.start for one, other in itertools.pairwise(spans))


@given(_jobs(lanes=("dp",)), st.floats(1.0, 10.0))
def test_a_faster_wire_that_nobody_shares_is_never_slower(job: Job, factor: float) -> None:
    # With shared links or slowed kernels this does not hold: what ends earlier may begin what gets in the way.
    faster = simulate(job, round_machine(bandwidth=1e9 * factor)).step_ns
    assert faster <= simulate(job, round_machine()).step_ns * (1 + 1e-9)
    assert faster == pytest.approx(_naive(job, 1 / factor))
