"""What is asked of NCCL, here a library that only notes it, and how far its sums are from the rehearsal's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dmc.distribution import install
from dmc.errors import DmcError
from dmc.interpreter.movements import deliver
from dmc.program import Collective
from dmc.runtime.world.launch import World
from dmc.runtime.world.nccl import NcclCommunicators


class Failure(Exception):
    """What NCCL raises."""


class Library:
    """CuPy's `nccl`. calls: what was asked. failing: the name of a call that fails."""

    available = True
    NcclError = Failure
    NCCL_INT8, NCCL_FLOAT32, NCCL_BFLOAT16, NCCL_SUM, NCCL_AVG = "i8", "f32", "bf16", "sum", "avg"

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.failing = ""
        self.groupStart = lambda: self.calls.append("start")
        self.groupEnd = lambda: self.calls.append("end")
        self.NcclCommunicator = self._communicator

    def get_unique_id(self) -> bytes:
        return b"id of " + str(len(self.calls)).encode()

    def _communicator(self, size: int, unique: bytes, rank: int) -> Any:
        self._asked("init", size, unique, rank)
        names = ("allReduce", "reduceScatter", "allGather", "broadcast", "send", "recv", "abort", "check_async_error")
        asked = {name: lambda *given, name=name: self._asked(name, *given) for name in names}
        return SimpleNamespace(size=lambda: size, **asked)

    def _asked(self, name: str, *given: Any) -> None:
        if name == self.failing:
            raise Failure("unhandled system error")
        self.calls.append((name, *given))


class Values:
    """A store of one process."""

    def __init__(self, rank: int, values: dict[str, bytes]) -> None:
        self.world = World(rank, 4, rank, 4, "torchrun")
        self._values = values

    def set(self, key: str, value: bytes) -> None:
        assert self._values.setdefault(key, value) is value, "set twice"

    def get(self, key: str) -> bytes:
        return self._values[key]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", library)
    return library


def _communicators(rank: int, values: dict[str, bytes]) -> NcclCommunicators:
    store: Any = Values(rank, values)
    return NcclCommunicators(store)


def test_each_communicator_has_an_id_of_its_own(library: Library) -> None:
    values: dict[str, bytes] = {}
    for rank in (1, 3):
        maker = _communicators(rank, values)
        maker.make((1, 3))
        maker.make((1, 3))
    first, second = b"id of 0", b"id of 1"
    assert library.calls == [("init", 2, uid, place) for place in (0, 1) for uid in (first, second)]


def test_calls(library: Library) -> None:
    by = _communicators(1, {"nccl/0-1/0": b"id"}).make((0, 1))
    library.calls.clear()
    by.all_reduce(10, 20, 4, "f32", "sum", 7)
    by.reduce_scatter(10, 20, 2, "bf16", "mean", 7)
    by.all_gather(10, 20, 16, "i8", 7)
    by.broadcast(10, 20, 16, "i8", 1, 7)
    by.all_to_all(10, 20, 2, "f32", 7)
    assert library.calls == [
        ("allReduce", 10, 20, 4, "f32", "sum", 7),
        ("reduceScatter", 10, 20, 2, "bf16", "avg", 7),
        ("allGather", 10, 20, 16, "i8", 7),
        ("broadcast", 10, 20, 16, "i8", 1, 7),
        "start",
        ("send", 10, 2, "f32", 0, 7),
        ("recv", 20, 2, "f32", 0, 7),
        ("send", 18, 2, "f32", 1, 7),
        ("recv", 28, 2, "f32", 1, 7),
        "end",
    ]
    with pytest.raises(DmcError, match="no elements of type i16"):
        by.all_reduce(10, 20, 4, "i16", "sum", 7)


def test_failures(library: Library) -> None:
    by = _communicators(1, {"nccl/0-1/0": b"id"}).make((0, 1))
    assert by.failed() is None
    library.failing = "check_async_error"
    assert by.failed() == "unhandled system error"
    library.failing = "allGather"
    with pytest.raises(DmcError, match=r"NCCL: fails \(unhandled system error\)"):
        by.all_gather(10, 20, 16, "i8", 7)
    library.failing = "recv"
    with pytest.raises(DmcError, match="NCCL: fails"):
        by.all_to_all(10, 20, 2, "f32", 7)
    # Otherwise all that is asked of NCCL later would wait for the group.
    assert library.calls[-1] == "end"
    library.failing = "init"
    with pytest.raises(DmcError, match=r"rank 0: cannot reach the ranks \[0, 1\] through NCCL"):
        _communicators(0, {}).make((0, 1))


def test_a_cupy_without_nccl_is_named(library: Library) -> None:
    library.available = False
    with pytest.raises(DmcError, match="requires NCCL, which is not installed"):
        _communicators(0, {})


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DmcError, match="requires the package 'cupy") as caught:
        _communicators(0, {})
    assert caught.value.hint == install("cuda")


def _ring(values: Sequence[np.ndarray], first: int) -> np.ndarray:
    """The sum as a ring forms it: from one member on, rounded to the element type at each."""
    order = [values[(first + i) % len(values)] for i in range(len(values))]
    total = order[0]
    for value in order[1:]:
        total = (total.astype(np.float32) + value.astype(np.float32)).astype(value.dtype)
    return total


def _rehearsed(values: Sequence[np.ndarray]) -> np.ndarray:
    """The sum as the CPU forms it."""
    ranks, dtype = tuple(range(len(values))), "f32" if values[0].dtype == np.float32 else "bf16"
    command = Collective(0, "all_reduce", "dp", ranks, 0, dtype, len(values[0]), None, None, "sum", "f32")
    return deliver(command, values)[0]


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 2.0**-24), (ml_dtypes.bfloat16, 2.0**-8)])
@pytest.mark.parametrize("members", [2, 4, 8])
def test_sums_are_as_near_as_their_roundings(dtype: Any, unit: float, members: int) -> None:
    """Of n values n - 1 sums, each rounded; with two members one, which is that of the rehearsal."""
    random = np.random.default_rng(members)
    values = [random.standard_normal(4096).astype(dtype) for _ in range(members)]
    rehearsed, size = _rehearsed(values).astype(np.float64), sum(np.abs(each.astype(np.float64)) for each in values)
    for first in range(members):
        formed = _ring(values, first).astype(np.float64)
        if members == 2:
            np.testing.assert_array_equal(formed, rehearsed)
        assert np.all(np.abs(formed - rehearsed) <= 2 * (members - 1) * unit * size)
