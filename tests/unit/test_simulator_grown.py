"""A job played for more ranks than it was planned for gives what a job planned for them gives."""

from __future__ import annotations

import pytest

from dmc.errors import DmcError
from dmc.machine import collective_ns, machine
from dmc.program import Job
from dmc.simulator import simulate
from tests.hand_made_jobs import COPY, DP, TP, Rank, job_of, round_machine


def _training(dp: int, tp: int = 1, layers: int = 3) -> Job:
    """Layers that exchange activations along tp, while gradients are reduced along dp, in a mesh of dp × tp."""
    ranks: list[Rank] = []
    for number in range(dp * tp):
        rank = Rank(number).move(7).record(0, COPY).wait(0)
        row = [number // tp * tp + other for other in range(tp)]
        column = [other * tp + number % tp for other in range(dp)]
        for layer in range(layers):
            rank.launch(20 + layer).record(3 * layer + 1)
            rank.wait(3 * layer + 1, DP).reduce(64, 2 * layer, column, f"gradient {layer}")
            rank.record(3 * layer + 2, DP)
            if tp > 1:
                rank.wait(3 * layer + 1, TP).reduce(16, 2 * layer + 1, row, f"activation {layer}", TP)
                rank.record(3 * layer + 3, TP).wait(3 * layer + 3)
        rank.wait(3 * layers - 1).launch(5, "update")
        ranks.append(rank)
    return job_of(*ranks, mesh={"dp": dp, "tp": tp} if tp > 1 else {"dp": dp})


@pytest.mark.parametrize(("planned", "played", "tp"), [(2, 4, 1), (2, 8, 2), (4, 8, 2), (2, 16, 4)])
@pytest.mark.parametrize("options", [{"per_node": 4}, {"slowdown": 1.5}, {"memory": True, "shared": True}], ids=str)
def test_a_grown_job_is_as_fast_as_a_planned_one(planned: int, played: int, tp: int, options: dict[str, float]) -> None:
    described = round_machine(**options)  # pyright: ignore[reportArgumentType]
    grown = simulate(_training(planned, tp), described, ranks=played * tp)
    whole = simulate(_training(played, tp), described)
    assert (grown.ranks, grown.copies, list(grown.programs)) == (played * tp, played, list(range(tp)))
    assert grown.step_ns == pytest.approx(whole.step_ns)
    for rank in range(tp):
        times = sorted((span.command, span.start, span.end) for span in grown.by_rank[rank])
        expected = sorted((span.command, span.start, span.end) for span in whole.by_rank[rank])
        assert [time for each in times for time in each] == pytest.approx([time for each in expected for time in each])


def test_a_thousand_ranks() -> None:
    node = machine("node8")
    job = job_of(*(Rank(rank).reduce(1 << 28, 1) for rank in (0, 1)))
    assert simulate(job, node, ranks=1024).step_ns == collective_ns(node, "all_reduce", range(1024), 1 << 28)


def test_replicas_on_two_nodes_decide() -> None:
    # Groups of three along tp: that of ranks 0 to 2 is on one node, that of ranks 3 to 5 on two.
    near = simulate(_training(2, 3), round_machine(per_node=4), ranks=6).step_ns
    far = simulate(_training(2, 3), round_machine(per_node=4), ranks=12).step_ns
    assert far >= near
    rank = [Rank(number).reduce(30, 1, (0, 1, 2) if number < 3 else (3, 4, 5), lane=TP) for number in range(6)]
    job = job_of(*rank, mesh={"dp": 2, "tp": 3})
    assert simulate(job, round_machine(per_node=4), ranks=12).step_ns == pytest.approx(10 * 2 * 30 * 2 / 3)


def test_an_axis_can_be_named() -> None:
    rank = [Rank(number).reduce(30, 1, (0, 1)) for number in range(2)]
    assert simulate(job_of(*rank, mesh={"data": 2}), round_machine(), ranks=4).ranks == 4
    both = job_of(*rank, mesh={"data": 2, "model": 1})
    assert simulate(both, round_machine(), ranks=4, axis="data").ranks == 4
    with pytest.raises(DmcError, match=r"axis 'dp': is not in the mesh\n.*data, model"):
        simulate(both, round_machine(), ranks=4)


def test_what_cannot_grow_is_refused() -> None:
    wire = round_machine()
    with pytest.raises(DmcError, match="6 ranks: do not fit a job of 4 ranks"):
        simulate(_training(1, 4), wire, ranks=6)
    with pytest.raises(DmcError, match="8 ranks: cannot be simulated from a job without communication"):
        simulate(_training(1, 4), wire, ranks=8)
    with pytest.raises(DmcError, match="do not fit a job of 2 ranks"):
        simulate(_training(2), wire, ranks=0)
    uneven = job_of(Rank(0).launch(5), Rank(1).launch(6))
    with pytest.raises(DmcError, match="ranks 0 and 1: differ in command 0"):
        simulate(uneven, wire, ranks=4)
    with pytest.raises(DmcError, match="ranks 0 and 1: have different lanes or numbers of commands"):
        simulate(job_of(Rank(0).launch(5), Rank(1)), wire, ranks=4)
    ring = job_of(*(Rank(rank).collective("permute", 8, 1, (0, 1)) for rank in (0, 1)))
    with pytest.raises(DmcError, match="rank 0, command 0: a permute between some replicas"):
        simulate(ring, wire, ranks=4)
    pairs = job_of(*(Rank(rank).reduce(8, 1, (rank // 2 * 2, rank // 2 * 2 + 1)) for rank in range(4)))
    with pytest.raises(DmcError, match="a all_reduce between some replicas"):
        simulate(pairs, wire, ranks=8)
