"""Circles of waiting between ranks are found and told, and their repairs accepted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dmc.errors import ProofError
from dmc.program import Buffer, Channel, Collective, Command, Job, Lane, Program, Range, Slot
from dmc.proof import verify
from dmc.proof.deadlock import check_deadlock
from dmc.proof.matching import check_matching

STATE = Range("device", 0, 64)
INBOX = Range("device", 256, 64)


def _job(ranks: Sequence[Sequence[Command]], channels: Sequence[str], mesh: dict[str, int] | None = None) -> Job:
    lanes = tuple(Lane(name, "comm", name) for name in channels)
    programs = tuple(
        Program(
            rank,
            {"device": 512},
            lanes,
            (Slot("w", "parameter", "f32", (16,), STATE),),
            tuple(commands),
            (
                Buffer("w", "parameter", STATE, 0, len(commands) - 1),
                Buffer("inbox", "communication", INBOX, 0, len(commands) - 1),
            ),
        )
        for rank, commands in enumerate(ranks)
    )
    return Job(mesh or {"x": len(ranks)}, tuple(Channel(name, ("x",)) for name in channels), {}, programs)


def _send(instance: int, to: int) -> Collective:
    return Collective(0, "send", "x", (0, 1, 2), instance, "f32", 16, STATE, None, peer=to, label=f"stage.{instance}")


def _receive(instance: int, source: int) -> Collective:
    return Collective(0, "recv", "x", (0, 1, 2), instance, "f32", 16, None, INBOX, peer=source)


def _reduce(lane: int, ranks: tuple[int, int], instance: int) -> Collective:
    name = f"{ranks[0]}{ranks[1]}"
    return Collective(
        *(lane, "all_reduce", name, ranks, instance, "f32", 16, STATE, STATE),
        reduction="sum",
        accumulate="f32",
        label=f"h.{instance}",
    )


def test_a_ring_of_messages() -> None:
    """All send before they receive: every pair of ranks agrees on its one message, and yet nobody goes on."""
    ring = [[_send(0, 1), _receive(2, 2)], [_send(1, 2), _receive(0, 0)], [_send(2, 0), _receive(1, 1)]]
    with pytest.raises(ProofError, match="rank 0 cannot begin recv #2") as caught:
        verify(_job(ring, ["x"]))
    story = str(caught.value)
    assert caught.value.property == "V5"
    assert "before send #0 (stage.0) (command 0, lane x), where it waits for rank 1" in story
    assert all(f"rank {rank} cannot begin" in story for rank in range(3))


def test_a_repaired_ring_of_messages() -> None:
    """One rank receives first."""
    ring = [[_send(0, 1), _receive(2, 2)], [_receive(0, 0), _send(1, 2)], [_receive(1, 1), _send(2, 0)]]
    certificate = verify(_job(ring, ["x"]))
    assert "V5" in certificate.properties


def _pairs(orders: Sequence[Sequence[tuple[int, int]]]) -> Job:
    """Three ranks with a communicator for each pair; each rank issues one all-reduce on both of its own, in turn.

    A lane for both, as if the rank's kernels kept them in order; the mesh cannot say such groups.
    """
    instances = {(0, 1): 0, (1, 2): 1, (2, 0): 2}
    return _job([[_reduce(0, pair, instances[pair]) for pair in order] for order in orders], ["pairs"])


def test_a_ring_of_pairwise_groups() -> None:
    """Each communicator has one movement, on which its members agree; the three wait for one another."""
    ring = _pairs([[(0, 1), (2, 0)], [(1, 2), (0, 1)], [(2, 0), (1, 2)]])
    check_matching(ring)
    with pytest.raises(ProofError, match="the step never ends") as caught:
        check_deadlock(ring)
    told = str(caught.value)
    assert all(f"all_reduce #{instance} (h.{instance})" in told for instance in range(3))
    assert told.count("cannot begin") == 3


def test_a_repaired_ring_of_pairwise_groups() -> None:
    """All ranks follow one order of the groups."""
    repaired = _pairs([[(0, 1), (2, 0)], [(0, 1), (1, 2)], [(1, 2), (2, 0)]])
    check_matching(repaired)
    check_deadlock(repaired)


def test_a_square_of_groups_of_a_mesh() -> None:
    """Rows and columns of a mesh in a circle, although no two share two ranks."""
    rows, columns = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}, {0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)}
    instances = {(0, 2): 0, (0, 1): 1, (1, 3): 2, (2, 3): 3}
    row_first = {0: False, 1: True, 2: True, 3: False}
    orders = [[(rows, columns), (columns, rows)][not row_first[rank]] for rank in range(4)]
    ring = _job([[_reduce(0, axis[r], instances[axis[r]]) for axis in orders[r]] for r in range(4)], ["pairs"])
    with pytest.raises(ProofError, match="the step never ends"):
        check_deadlock(ring)
    same = _job([[_reduce(0, axis[r], instances[axis[r]]) for axis in (rows, columns)] for r in range(4)], ["pairs"])
    check_deadlock(same)
