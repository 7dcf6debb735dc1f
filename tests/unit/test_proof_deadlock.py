"""Cycles of waits between ranks are found and reported, and their repairs accepted."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import pytest

from dmc.errors import ProofError
from dmc.program import Buffer, Channel, Collective, Command, Job, Lane, Program, Range, Slot
from dmc.proof import verify

STATE = Range("device", 0, 64)
INBOX = Range("device", 256, 64)


def _job(ranks: Sequence[Sequence[Command]], channel: Channel) -> Job:
    lanes = (Lane(channel.name, "comm", channel.name),)
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
    return Job.of({"x": len(ranks)}, (channel,), {}, programs, stages=("x",))


def _send(instance: int, to: int) -> Collective:
    return Collective(0, "send", "x", (0, 1, 2), instance, "f32", 16, STATE, None, peer=to, label=f"stage.{instance}")


def _receive(instance: int, source: int) -> Collective:
    return Collective(0, "recv", "x", (0, 1, 2), instance, "f32", 16, None, INBOX, peer=source)


def _reduce(ranks: tuple[int, int], instance: int) -> Collective:
    return Collective(
        *(0, "all_reduce", "pairs", ranks, instance, "f32", 16, STATE, STATE),
        reduction="sum",
        accumulate="f32",
        label=f"h.{instance}",
    )


def test_a_ring_of_messages() -> None:
    """All send before they receive: every pair of ranks agrees on its one message, but all of them wait forever."""
    ring = [[_send(0, 1), _receive(2, 2)], [_send(1, 2), _receive(0, 0)], [_send(2, 0), _receive(1, 1)]]
    with pytest.raises(ProofError, match="rank 0 cannot begin recv #2") as caught:
        verify(_job(ring, Channel("x", ("x",))))
    story = str(caught.value)
    assert caught.value.property == "V5"
    assert "before send #0 (stage.0) (command 0, lane x), where it waits for rank 1" in story
    assert all(f"rank {rank} cannot begin" in story for rank in range(3))


def test_a_repaired_ring_of_messages() -> None:
    """One rank receives first."""
    ring = [[_send(0, 1), _receive(2, 2)], [_receive(0, 0), _send(1, 2)], [_receive(1, 1), _send(2, 0)]]
    certificate = verify(_job(ring, Channel("x", ("x",))))
    assert "V5" in certificate.properties


def _pairs(orders: Sequence[Sequence[tuple[int, int]]]) -> Job:
    """Ranks with a communicator for each pair; each rank issues one all-reduce on both of its own, in turn."""
    groups = tuple(sorted({pair for order in orders for pair in order}))
    ranks = [[_reduce(pair, groups.index(pair)) for pair in order] for order in orders]
    return _job(ranks, Channel("pairs", groups=groups))


def test_a_ring_of_pairwise_groups() -> None:
    """Each communicator has one movement, on which its members agree; the three wait for one another."""
    ring = _pairs([[(0, 1), (2, 0)], [(1, 2), (0, 1)], [(2, 0), (1, 2)]])
    with pytest.raises(ProofError, match="the step never ends") as caught:
        verify(ring)
    told = str(caught.value)
    assert caught.value.property == "V5"
    assert all(f"all_reduce #{instance} (h.{instance})" in told for instance in range(3))
    assert told.count("cannot begin") == 3


def test_a_repaired_ring_of_pairwise_groups() -> None:
    """All ranks follow one order of the groups."""
    verify(_pairs([[(0, 1), (2, 0)], [(0, 1), (1, 2)], [(1, 2), (2, 0)]]))


def test_a_square_of_groups_of_a_mesh() -> None:
    """Rows and columns of a mesh in a cycle, although no two share two ranks."""
    rows, columns = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}, {0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)}
    with pytest.raises(ProofError, match="the step never ends"):
        verify(_pairs([(rows[r], columns[r]) if r in (1, 2) else (columns[r], rows[r]) for r in range(4)]))
    verify(_pairs([(rows[r], columns[r]) for r in range(4)]))


@pytest.mark.parametrize(
    ("channel", "story"),
    [
        (Channel("pairs"), "channel pairs: V3: must have either axes of the mesh or groups of ranks, not both"),
        (Channel("pairs", ("x",), ((0, 1),)), "channel pairs: V3: must have either axes of the mesh or groups"),
        (Channel("pairs", groups=((0, 3),)), "its group (0, 3) does not consist of distinct ranks of the 3"),
        (Channel("pairs", groups=((0, 0),)), "its group (0, 0) does not consist of distinct ranks of the 3"),
        (Channel("pairs", groups=((0, 1), (1, 0))), "has two groups of the same ranks"),
        (
            Channel("pairs", groups=((0, 1), (1, 2))),
            "names ranks (2, 0); its communicator pairs has, in this order, (0, 1)",
        ),
        (Channel("pairs", groups=((1, 2),)), "has, in this order, no group of this rank"),
    ],
)
def test_groups_that_cannot_be(channel: Channel, story: str) -> None:
    ring = _pairs([[(0, 1), (2, 0)], [(0, 1), (1, 2)], [(1, 2), (2, 0)]])
    with pytest.raises(ProofError, match=re.escape(story)) as caught:
        verify(msgspec.structs.replace(ring, channels=(channel,)))
    assert caught.value.property == "V3"
