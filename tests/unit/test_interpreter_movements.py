"""Movements between ranks in numpy: known answers, element types, and what cannot come to an end."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import msgspec
import numpy as np
import pytest

from dmc.dtypes import Array, numpy_type
from dmc.errors import DmcError
from dmc.interpreter import Deadlock, run
from dmc.interpreter.movements import deliver
from dmc.program import Channel, Collective, Command, Job, Lane, Program, Range, Slot

SUM: dict[str, Any] = {"reduction": "sum", "accumulate": "f32"}
# By kind, beside what all have: how many elements each rank gets, fields of the command, what rank 0 and rank 1 get.
# Rank r holds [10r, 10r + 1].
CASES: dict[str, tuple[int, dict[str, Any], list[list[int]]]] = {
    "all_gather": (4, {}, [[0, 1, 10, 11]] * 2),
    "all_reduce": (2, SUM, [[10, 12]] * 2),
    "all_to_all": (2, {}, [[0, 10], [1, 11]]),
    "broadcast": (2, {"peer": 1}, [[10, 11]] * 2),
    "permute": (2, {"pairs": ((1, 0),)}, [[10, 11], [0, 0]]),
    "reduce_scatter": (1, SUM, [[10], [12]]),
}


def part(kind: Any, instance: int = 0, ranks: tuple[int, ...] = (0, 1), lane: int = 0, **fields: Any) -> Collective:
    """A rank's part in a movement of two f32, from the start of the arena to byte 256."""
    given: dict[str, Any] = {
        "source": Range("device", 0, 8),
        "target": Range("device", 256, 8),
        "dtype": "f32",
        "count": 2,
        **fields,
    }
    return Collective(lane, kind, f"c{lane}", ranks, instance, **given)


def job_of(*programs: tuple[Command, ...], results: int = 2) -> Job:
    """A job whose ranks hold a parameter of two f32 and give `results` of them."""
    lanes = tuple(Lane(f"c{i}", "comm", f"c{i}") for i in range(3))
    slots = (
        Slot("w", "parameter", "f32", (2,), Range("device", 0, 8)),
        Slot("y", "output", "f32", (results,), Range("device", 256, 4 * results)),
    )
    ranks = tuple(Program(i, {"device": 512}, lanes, slots, commands) for i, commands in enumerate(programs))
    return Job.of({"dp": len(ranks)}, tuple(Channel(lane.name, ("dp",)) for lane in lanes), {}, ranks)


def results(job: Job, seed: int = 0) -> list[list[float]]:
    """What each rank gives where rank r holds [10r, 10r + 1]."""
    state = [{"w": np.array([10 * rank, 10 * rank + 1], np.float32)} for rank in range(len(job.programs))]
    outputs, after = run(job, {}, state, [{} for _ in state], seed)
    assert [each["w"].tolist() for each in after] == [each["w"].tolist() for each in state]
    return [each["y"].tolist() for each in outputs]


@pytest.mark.parametrize("kind", CASES)
def test_known_answers(kind: str) -> None:
    elements, fields, wanted = CASES[kind]
    command = part(kind, target=Range("device", 256, 4 * elements), **fields)
    for seed in range(10):
        assert results(job_of((command,), (command,), results=elements), seed) == wanted


def test_in_place() -> None:
    command = part("all_reduce", source=Range("device", 256, 8), **SUM)
    copies = part("permute", 1, pairs=((0, 0), (1, 1)))
    assert results(job_of((copies, command), (copies, command))) == [[10, 12]] * 2


def test_messages() -> None:
    """Of three ranks, two exchange values; the third has no part in that."""
    ranks = (0, 1, 2)

    def sent(to: int, instance: int) -> Collective:
        return part("send", instance, ranks, peer=to, target=None)

    def received(source: int, instance: int) -> Collective:
        return part("recv", instance, ranks, peer=source, source=None)

    keeps = part("permute", 7, (2,), pairs=((0, 0),))
    job = job_of((sent(1, 0), received(1, 1)), (received(0, 0), sent(0, 1)), (keeps,))
    assert results(job) == [[10, 11], [0, 1], [20, 21]]


def test_groups_of_one_channel_share_a_number() -> None:
    left, right = part("all_reduce", 0, (0, 1), **SUM), part("all_reduce", 0, (2, 3), **SUM)
    assert results(job_of((left,), (left,), (right,), (right,))) == [[10, 12]] * 2 + [[50, 52]] * 2


def test_a_ring_of_pairs_is_deadlocked() -> None:
    """Each communicator has one movement, so each is ordered; but everyone first waits for the next."""
    pairs = {0: (0, 1), 1: (1, 2), 2: (0, 2)}
    parts = {number: part("all_reduce", number, pair, **SUM) for number, pair in pairs.items()}
    job = job_of((parts[0], parts[2]), (parts[1], parts[0]), (parts[2], parts[1]))
    for seed in range(5):
        with pytest.raises(Deadlock) as caught:
            results(job, seed)
        reach = "whose lane c0 has yet to reach its command 1"
        assert caught.value.fact.splitlines() == [
            "the step does not end:",
            f"  rank 0, lane c0, command 0 waits for rank 1 in all_reduce #0, {reach}",
            f"  rank 1, lane c0, command 0 waits for rank 2 in all_reduce #1, {reach}",
            f"  rank 2, lane c0, command 0 waits for rank 0 in all_reduce #2, {reach}",
        ]
    # On separate lanes, no command waits.
    free = [msgspec.structs.replace(each, lane=i, channel=f"c{i}") for i, each in parts.items()]
    last = [msgspec.structs.replace(each, target=Range("device", 300, 8)) for each in free]
    job = job_of((free[0], last[2]), (free[1], last[0]), (free[2], last[1]))
    assert results(job) == [[10, 12], [30, 32], [20, 22]]


def test_a_member_that_never_comes() -> None:
    with pytest.raises(Deadlock, match="waits for rank 1 in all_reduce #0, which never takes part"):
        results(job_of((part("all_reduce", **SUM),), ()))


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (part("all_reduce", **SUM), part("broadcast", peer=0), "ranks 0 and 1 do not agree"),
        (part("broadcast", peer=0), part("broadcast", peer=1), "ranks 0 and 1 do not agree"),
        (part("all_reduce", **SUM), part("all_reduce", count=1, **SUM), "ranks 0 and 1 do not agree"),
        (
            part("all_reduce", ranks=(1, 2), **SUM),
            part("all_to_all"),
            "rank 0 takes part in it, but its members are ranks [1, 2]",
        ),
        (part("all_reduce", ranks=(0, 0), **SUM), part("all_to_all"), "but its members are ranks [0, 0]"),
        (part("send", peer=0, target=None), part("all_to_all"), "but its members are ranks [0, 0]"),
        (part("all_reduce", reduction="sum"), part("all_reduce", reduction="sum"), "by sum in None"),
        (part("all_gather"), part("all_gather"), "16 bytes are written to 8"),
    ],
)
def test_members_agree(one: Collective, other: Collective, message: str) -> None:
    with pytest.raises(DmcError, match=re.escape(message)):
        results(job_of((one,), (other,)))


def test_nobody_takes_part_twice() -> None:
    with pytest.raises(DmcError, match="rank 0 takes part twice"):
        results(job_of((part("all_to_all"), part("all_to_all")), (part("all_to_all"),)))


def reduced(dtype: str, accumulate: str, reduction: Any, *contributions: list[float]) -> list[Any]:
    """An all-reduce of these."""
    arrays: list[Array] = [np.array(each).astype(numpy_type(dtype)) for each in contributions]
    command = part("all_reduce", dtype=dtype, count=len(arrays[0]), reduction=reduction, accumulate=accumulate)
    for delivered in deliver(command, arrays):
        assert delivered.dtype == arrays[0].dtype
        assert np.array_equal(delivered, deliver(command, arrays)[0], equal_nan=dtype.startswith("f"))
    return deliver(command, arrays)[0].tolist()


def test_reductions_add_up_in_their_type() -> None:
    # 256 + 1 is not a bf16; three of them are 258 where they add up in f32, and 256 in bf16.
    assert reduced("bf16", "f32", "sum", [256], [1], [1]) == [258]
    assert reduced("bf16", "bf16", "sum", [256], [1], [1]) == [256]
    assert reduced("bf16", "f32", "mean", [1], [2], [2]) == [float(ml_dtypes.bfloat16(5 / 3))]
    # In the order of the ranks.
    assert reduced("f32", "f32", "sum", [1e8], [-1e8], [1]) == [1]
    assert reduced("f32", "f32", "sum", [1], [1e8], [-1e8]) == [0]
    assert reduced("f32", "f64", "sum", [1], [1e8], [-1e8]) == [1]
    assert reduced("i32", "i32", "sum", [2**31 - 1], [1]) == [-(2**31)]
    assert reduced("i32", "i64", "max", [-5, 3], [2, -7]) == [2, 3]
    assert reduced("i64", "i64", "prod", [3], [-4]) == [-12]
    # As arith.minimumf has it, a NaN is not lost.
    assert np.isnan(reduced("f32", "f32", "min", [float("nan")], [1])).all()
    with pytest.raises(DmcError, match="cannot combine elements of i1 by sum in i1"):
        reduced("i1", "i1", "sum", [1], [0])
