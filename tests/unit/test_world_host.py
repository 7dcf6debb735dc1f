"""Collectives between CPU processes agree with the interpreter of jobs; each rank is a thread here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dmc.dtypes import Array, numpy_type
from dmc.errors import DmcError
from dmc.interpreter.movements import deliver
from dmc.program import Collective, Job, Lane, Program, Range
from dmc.program.job import Channel
from dmc.runtime.world.channels import Channels
from dmc.runtime.world.host import HostCommunicators
from tests.unit.test_world_store import stores

RANKS, COUNT = 3, 6
GROUP = (2, 0, 1)
REDUCED = [("all_reduce", kind, dtype) for kind in ("sum", "mean", "prod", "min", "max") for dtype in ("f32", "bf16")]
MOVED: list[tuple[Any, Any, str]] = [
    *REDUCED,
    ("reduce_scatter", "sum", "bf16"),
    ("reduce_scatter", "mean", "f32"),
    ("all_reduce", "sum", "i32"),
    ("all_gather", None, "bf16"),
    ("all_to_all", None, "f32"),
    ("broadcast", None, "i64"),
    ("permute", None, "f32"),
]


def command(kind: Any, reduction: Any, dtype: str) -> Collective:
    size = numpy_type(dtype).itemsize
    results = {"all_gather": COUNT * RANKS, "reduce_scatter": COUNT // RANKS}
    source, target = Range("host", 0, COUNT * size), Range("host", 0, results.get(kind, COUNT) * size)
    wide = None if reduction is None else "f32" if dtype == "bf16" else dtype
    pairs = ((0, 1), (1, 2), (2, 0)) if kind == "permute" else ()
    peer = 1 if kind == "broadcast" else None
    return Collective(0, kind, "c", GROUP, 0, dtype, COUNT, source, target, reduction, wide, peer, pairs)


def channels() -> list[Channels]:
    """Each rank's, with one channel whose group is not in rank order."""
    programs = tuple(Program(rank, {}, (Lane("c", "comm", "c"),), (), ()) for rank in range(RANKS))
    job = Job.of({"a": RANKS}, (Channel("c", groups=(GROUP,)),), {}, programs)
    return [Channels(job, rank, HostCommunicators(store, 5)) for rank, store in enumerate(stores(RANKS))]


def on_all(do: Any) -> list[Any]:
    with ThreadPoolExecutor(RANKS) as threads:
        return list(threads.map(do, range(RANKS)))


def test_movements_are_those_of_the_interpreter() -> None:
    made = channels()
    draw = np.random.default_rng(0)
    for kind, reduction, dtype in MOVED:
        movement = command(kind, reduction, dtype)
        assert movement.target is not None
        given: list[Array] = [(10 * draw.standard_normal(COUNT)).astype(numpy_type(dtype)) for _ in GROUP]
        count = movement.target.length // given[0].itemsize
        found: list[Array] = [np.zeros(count, given[0].dtype) for _ in GROUP]
        on_all(lambda rank: made[rank].move(movement, _at(given[rank]), _at(found[rank]), None))  # noqa: B023
        expected = deliver(movement, [given[rank] for rank in GROUP])
        for rank, wanted in zip(GROUP, expected, strict=True):
            assert found[rank].tobytes() == wanted.tobytes(), (kind, reduction, dtype, rank)


def test_messages_arrive_in_the_order_in_which_they_were_sent() -> None:
    opened = stores(2)
    made = [HostCommunicators(store, 5).make((0, 1)) for store in opened]
    given, found = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    for place in (0, 2):
        made[0].send(_at(given) + 4 * place, 2, "f32", 1, None)
    for place in (0, 2):
        made[1].recv(_at(found) + 4 * place, 2, "f32", 0, None)
    assert found.tolist() == given.tolist()


def test_a_communicator_that_was_aborted_moves_nothing() -> None:
    own = HostCommunicators(stores(2)[0], 5).make((0, 1))
    own.abort()
    with pytest.raises(DmcError, match="was aborted"):
        own.all_gather(0, 0, 0, "f32", None)


def _at(array: Array) -> int:
    return array.ctypes.data
