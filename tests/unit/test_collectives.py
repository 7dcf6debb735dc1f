"""The table of collectives: what members receive has the sizes that it states, and costs grow as rings and trees do."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from dmc.interpreter.movements import deliver
from dmc.program import Collective, CollectiveKind
from dmc.program.collectives import KINDS, MESSAGES, is_divisible, members_of, sizes

RANKS, COUNT = (3, 5, 4), 6
MORE: dict[str, dict[str, Any]] = {
    "all_reduce": {"reduction": "sum", "accumulate": "f32"},
    "reduce_scatter": {"reduction": "sum", "accumulate": "f32"},
    "broadcast": {"peer": 2},
    "permute": {"pairs": ((0, 1), (1, 0))},
    "send": {"peer": 1},
    "recv": {"peer": 1},
}
# What members 0, 1 and 2 receive where rank i sends 10 i, …, 10 i + 5.
RECEIVED = {
    "all_reduce": [[30, 33, 36, 39, 42, 45]] * 3,
    "all_gather": [[*range(6), *range(10, 16), *range(20, 26)]] * 3,
    "reduce_scatter": [[30, 33], [36, 39], [42, 45]],
    "all_to_all": [[0, 1, 10, 11, 20, 21], [2, 3, 12, 13, 22, 23], [4, 5, 14, 15, 24, 25]],
    "broadcast": [[*range(20, 26)]] * 3,
    "permute": [[*range(10, 16)], [*range(6)], [0] * 6],
    "send": [[*range(6)]],
    "recv": [[*range(6)]],
}


def _command(kind: CollectiveKind) -> Collective:
    return Collective(0, kind, "c", RANKS, 0, "f32", COUNT, None, None, **MORE.get(kind, {}))


def test_the_table_has_every_kind() -> None:
    assert sorted(KINDS) == sorted(get_args(CollectiveKind))


@pytest.mark.parametrize("kind", KINDS)
def test_members_receive_what_the_kind_says(kind: CollectiveKind) -> None:
    sources = [np.arange(10 * i, 10 * i + COUNT, dtype=np.float32) for i in range(1 if kind in MESSAGES else 3)]
    received = deliver(_command(kind), sources)
    assert [each.tolist() for each in received] == RECEIVED[kind]
    given, taken = sizes(kind, len(RANKS), COUNT)
    assert given in (COUNT, None) and taken in (len(received[0]), None)
    assert (given is None, taken is None) == (kind == "recv", kind == "send")


def test_pieces_are_whole() -> None:
    assert [kind for kind in KINDS if not is_divisible(kind, 4, COUNT)] == ["reduce_scatter", "all_to_all"]


def test_a_message_has_two_ends() -> None:
    assert members_of(3, _command("send")) == (3, 5) and members_of(3, _command("recv")) == (5, 3)
    assert members_of(3, _command("all_gather")) == RANKS


def test_hops_and_bytes() -> None:
    hops = {kind: [each.hops(n) for n in (1, 2, 8)] for kind, each in KINDS.items()}
    assert hops["all_reduce"] == [0, 2, 6] and hops["all_gather"] == [0, 1, 7] and hops["broadcast"] == [0, 1, 3]
    sent = {kind: each.sent(4) for kind, each in KINDS.items()}
    assert sent["all_reduce"] == 1.5 and sent["reduce_scatter"] == 0.75 and sent["permute"] == 1
