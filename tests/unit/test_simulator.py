"""Hand-made jobs whose times are known: order of lanes, events, rendezvous, contention, sharing."""

from __future__ import annotations

import importlib

import pytest
from msgspec.structs import replace

from dmc.errors import DmcError
from dmc.program import CollectiveKind
from dmc.simulator import Simulation, simulate
from dmc.simulator.critical_path import contributors, critical_path
from dmc.simulator.use import lane_use, waits
from tests.hand_made_jobs import COMPUTE, COPY, DP, TP, Rank, job_of, round_machine


def _times(simulation: Simulation) -> dict[str, tuple[float, float]]:
    """Start and end by label, of rank 0 where several have it."""
    spans = [span for span in simulation.spans if simulation.work(span).label]
    return {simulation.work(span).label: (_round(span.start), _round(span.end)) for span in reversed(spans)}


def _round(ns: float) -> float:
    # 30 operations at 1e9 a second are 29.999999999999996 ns.
    return round(ns, 9)


def test_a_lane_is_in_order_and_lanes_overlap() -> None:
    job = job_of(Rank().launch(10, "a").move(25, "b").launch(5, "c"))
    played = simulate(job, round_machine())
    assert _times(played) == {"a": (0, 10), "b": (0, 25), "c": (10, 15)}
    assert _round(played.step_ns) == 25


def test_an_event_orders_two_lanes() -> None:
    job = job_of(Rank().move(25, "b").record(0, COPY).launch(10, "a").wait(0).launch(5, "c"))
    assert _times(simulate(job, round_machine())) == {"b": (0, 25), "a": (0, 10), "c": (25, 30)}


def test_an_event_signalled_long_ago_holds_nobody() -> None:
    job = job_of(Rank().move(5, "b").record(0, COPY).launch(10, "a").wait(0).launch(5, "c"))
    assert _times(simulate(job, round_machine()))["c"] == (10, 15)


def test_a_collective_begins_when_the_last_member_is_there() -> None:
    ranks = [
        Rank(rank).launch(ns, f"k{rank}").record(0).wait(0, DP).reduce(10, 7, label="r")
        for rank, ns in ((0, 5), (1, 30))
    ]
    played = simulate(job_of(*ranks), round_machine())
    assert _times(played)["r"] == (30, 40)
    early = next(span for span in played.by_rank[0] if span.lane == DP)
    assert (early.arrived, early.start, early.end) == pytest.approx((5, 30, 40))
    (use,) = [use for use in lane_use(played) if (use.rank, use.lane) == (0, "dp")]
    assert (use.busy, use.waiting, use.idle) == pytest.approx((10, 25, 5))


def test_exposed_communication_is_exact() -> None:
    # The reduction runs from 10 to 30; until 22 the rank has something else to compute.
    def rank(number: int) -> Rank:
        return Rank(number).launch(10).record(0).wait(0, DP).reduce(20, 1).record(1, DP).launch(12).wait(1).launch(3)

    for use in waits(simulate(job_of(rank(0), rank(1)), round_machine())):
        assert (use.busy, use.communication, use.copies, use.others) == pytest.approx((25, 8, 0, 0))


def test_what_waits_for_a_slower_rank_is_not_communication() -> None:
    ranks = [
        Rank(rank).launch(ns).record(0).wait(0, DP).reduce(10, 7).record(1, DP).wait(1).launch(1)
        for rank, ns in ((0, 5), (1, 30))
    ]
    early, late = waits(simulate(job_of(*ranks), round_machine()))
    assert (early.busy, early.communication, early.others) == pytest.approx((6, 10, 25))
    assert (late.busy, late.communication, late.others) == pytest.approx((31, 10, 0))


def test_a_batch_that_comes_late_is_a_copy() -> None:
    job = job_of(Rank().move(40).record(0, COPY).launch(10).wait(0).launch(5))
    (use,) = waits(simulate(job, round_machine()))
    assert (use.busy, use.copies, use.communication) == pytest.approx((15, 30, 0))


def test_communication_after_the_last_kernel_is_exposed() -> None:
    ranks = [Rank(rank).launch(10).record(0).wait(0, DP).reduce(20, 1) for rank in (0, 1)]
    assert [use.communication for use in waits(simulate(job_of(*ranks), round_machine()))] == pytest.approx([20, 20])


def test_of_two_ends_of_the_step_a_rank_waits_for_its_own() -> None:
    ranks = [Rank(0).launch(20), Rank(1).launch(10).record(0).wait(0, COPY).move(10)]
    first, second = waits(simulate(job_of(*ranks), round_machine()))
    assert (first.busy, first.copies, first.others) == pytest.approx((20, 0, 0))
    assert (second.busy, second.copies, second.others) == pytest.approx((10, 10, 0))


def test_a_queue_of_communication_is_exposed_as_a_whole() -> None:
    ranks = [Rank(rank).reduce(20, 1).reduce(30, 2).record(0, DP).launch(4).wait(0).launch(1) for rank in (0, 1)]
    assert [use.communication for use in waits(simulate(job_of(*ranks), round_machine()))] == pytest.approx([46, 46])


def test_kernels_are_slower_beside_communication() -> None:
    # 20 ns beside the reduction do 10 ns of work; the other 30 are done alone.
    ranks = [Rank(rank).reduce(20, 1, label="r").launch(40, "k") for rank in (0, 1)]
    times = _times(simulate(job_of(*ranks), round_machine(slowdown=2.0)))
    assert times == {"r": (0, 20), "k": (0, 50)}


def test_copy_engines_slow_kernels_less(monkeypatch: pytest.MonkeyPatch) -> None:
    described = round_machine(slowdown=2.0)
    assert described.link is not None
    gentle = replace(described, link=replace(described.link, copy_slowdown=1.25))
    kinds: tuple[tuple[CollectiveKind, int], ...] = (("all_reduce", 10), ("permute", 16))
    described_by = importlib.import_module("dmc.machine.machine")
    monkeypatch.setattr(described_by, "COPIED_BYTES", 20)
    for kind, beside in kinds:
        ranks = [Rank(rank).collective(kind, 20, 1, (0, 1), "r").launch(40, "k") for rank in (0, 1)]
        assert _times(simulate(job_of(*ranks), gentle))["k"] == (0, 20 + 40 - beside)
    # What is smaller NCCL moves.
    monkeypatch.setattr(described_by, "COPIED_BYTES", 21)
    ranks = [Rank(rank).collective("permute", 20, 1, (0, 1), "r").launch(40, "k") for rank in (0, 1)]
    assert _times(simulate(job_of(*ranks), gentle))["k"] == (0, 50)


def test_what_a_launch_costs_anyway_is_not_slowed() -> None:
    # 10 of 40 ns are the launch: beside the reduction it takes 10 + 2·30 ns, so 20 ns do 20/70 of it.
    ranks = [Rank(rank).reduce(20, 1, label="r").launch(30, "k") for rank in (0, 1)]
    times = _times(simulate(job_of(*ranks), round_machine(slowdown=2.0, floor=10.0)))
    assert times["k"] == (0, _round(20 + 40 * (1 - 20 / 70)))


def test_a_waiting_member_slows_nobody() -> None:
    ranks = [Rank(0).reduce(20, 1).launch(10, "k"), Rank(1).launch(10).record(0).wait(0, DP).reduce(20, 1)]
    assert _times(simulate(job_of(*ranks), round_machine(slowdown=2.0)))["k"] == (0, 10)


def test_collectives_share_a_port() -> None:
    # Two at half speed until the short one is done at 20; the long one has 20 ns of work left.
    ranks = [Rank(rank).reduce(10, 1, label="short").reduce(30, 2, label="long", lane=TP) for rank in (0, 1)]
    assert _times(simulate(job_of(*ranks), round_machine())) == {"short": (0, 20), "long": (0, 40)}


def test_the_most_crowded_port_decides() -> None:
    ranks = [
        Rank(0).reduce(10, 1, (0, 1), "left"),
        Rank(1).reduce(10, 1, (0, 1)).reduce(10, 2, (1, 2), "right", TP),
        Rank(2).reduce(10, 2, (1, 2), lane=TP),
        Rank(3).reduce(10, 3, (3, 4), "apart"),
        Rank(4).reduce(10, 3, (3, 4)),
    ]
    times = _times(simulate(job_of(*ranks), round_machine()))
    assert times == {"left": (0, 20), "right": (0, 20), "apart": (0, 10)}


def test_link_and_network_are_different_ports() -> None:
    ranks = [
        Rank(rank).reduce(10, 1 + rank // 2, pair, "near").reduce(10, 3 + rank % 2, (rank % 2, rank % 2 + 2), "far", TP)
        for rank, pair in ((0, (0, 1)), (1, (0, 1)), (2, (2, 3)), (3, (2, 3)))
    ]
    times = _times(simulate(job_of(*ranks, mesh={"dp": 2, "tp": 2}), round_machine(per_node=2)))
    assert times == {"near": (0, 10), "far": (0, 100)}


def test_all_share_one_memory() -> None:
    # Two members copy 2·2·10 bytes for each collective; the two groups share the memory.
    ranks = [Rank(rank).reduce(10, rank // 2, (0, 1) if rank < 2 else (2, 3), "r") for rank in range(4)]
    assert _times(simulate(job_of(*ranks), round_machine(memory=True)))["r"] == (0, 80)


def test_ranks_share_a_device() -> None:
    ranks = [Rank(0).launch(10, "a"), Rank(1).launch(30, "b")]
    assert _times(simulate(job_of(*ranks), round_machine(shared=True))) == {"a": (0, 20), "b": (0, 40)}


def test_a_message_meets_its_two_ends_only() -> None:
    ranks = [
        Rank(0).launch(5).record(0).wait(0, DP).message("send", 10, 1, (0, 1, 2), 2),
        Rank(1).launch(99),
        Rank(2).message("recv", 10, 1, (0, 1, 2), 0).record(0, DP).wait(0).launch(1, "after"),
    ]
    assert _times(simulate(job_of(*ranks), round_machine()))["after"] == (15, 16)


def test_groups_with_one_instance_are_apart() -> None:
    ranks = [Rank(rank).launch(5 + 10 * (rank // 2)).record(0).wait(0, DP) for rank in range(4)]
    for rank in ranks:
        rank.reduce(10, 1, (0, 1) if rank.rank < 2 else (2, 3), f"r{rank.rank // 2}")
    times = _times(simulate(job_of(*ranks), round_machine()))
    assert times == {"r0": (5, 15), "r1": (15, 25)}


def test_the_critical_path_goes_through_ranks() -> None:
    ranks = [
        Rank(0).launch(5, "fast").record(0).wait(0, DP).reduce(10, 1, label="r").record(1, DP).wait(1).launch(3, "end"),
        Rank(1).launch(30, "slow").record(0).wait(0, DP).reduce(10, 1, label="r"),
    ]
    played = simulate(job_of(*ranks), round_machine())
    assert [(span.rank, played.work(span).label) for span in critical_path(played)] == [
        (1, "slow"),
        (0, "r"),
        (0, "end"),
    ]
    assert [(part.kind, part.label, _round(part.ns)) for part in contributors(played)] == [
        ("other", "slow", 30),
        ("all_reduce", "r", 10),
        ("other", "end", 3),
    ]
    assert sum(part.share for part in contributors(played)) == pytest.approx(1)


def test_lanes_that_wait_for_each_other_are_named() -> None:
    ranks = [
        Rank(0).reduce(10, 1).reduce(10, 2),
        Rank(1).reduce(10, 2).reduce(10, 1),
    ]
    with pytest.raises(DmcError, match="never ends: rank 0, lane dp, command 0 waits for the other members") as error:
        simulate(job_of(*ranks), round_machine())
    assert "rank 1, lane dp, command 0" in str(error.value)
    with pytest.raises(DmcError, match="rank 0, lane compute, command 0 waits for event 3"):
        simulate(job_of(Rank().wait(3).launch(1)), round_machine())


def test_an_empty_step_takes_no_time() -> None:
    played = simulate(job_of(Rank()), round_machine())
    assert (played.step_ns, played.spans, critical_path(played)) == (0, (), ())
    assert COMPUTE == 0
    assert waits(played)[0].busy == 0


def test_the_machine_must_have_the_ranks() -> None:
    from dmc.machine import machine

    with pytest.raises(DmcError, match="machine h200: has 1 of the 2 ranks"):
        simulate(job_of(Rank(0).launch(1), Rank(1).launch(1)), machine("h200"))
