"""Candidates are timed if they are right, on a device that computes in numpy."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dmc.errors import ArtifactError, DmcError
from dmc.program import Operand
from dmc.program.code import Binding, DeviceCode, Dispatch, Matrix, Place, Product
from dmc.program.tuning import HEURISTIC, Candidate, Candidates, Choice, Tunable, algorithm_of, label_of
from dmc.runtime.sessions.replay.tuner import compared, difference, drawn, tune

COUNT = 1000
OPERAND = Operand("f32", (COUNT,))
BINDINGS = (Binding("ro", Place("read", 0, 0, 4 * COUNT)), Binding("wo", Place("write", 0, 0, 4 * COUNT)))
ALGORITHM = (66, 20, 1, 0, 0, 0, 36, 0, 5)


# From so many launches on that nobody waits for, a device is under load.
PAUSELESS = 1000


class Device:
    """Doubles numbers. times: of candidates, by their entry, in microseconds; loaded: those under load, if others."""

    def __init__(self, times: dict[str, float], loaded: dict[str, float] | None = None) -> None:
        self.times, self.memory, self.issued = times, np.zeros(0, np.uint8), list[str]()
        self.loaded = loaded or times
        self.pointers: list[tuple[int, ...]] = []

    def prepare(self, lanes: int, code: DeviceCode) -> None:
        self.kernels = code.kernels

    def allocate(self, length: int) -> Any:
        self.memory = np.zeros(length, np.uint8)
        return SimpleNamespace(ptr=0)

    def upload(self, target: int, data: bytes) -> None:
        self.memory[target : target + len(data)] = np.frombuffer(data, np.uint8)

    def download(self, source: int, length: int) -> np.ndarray:
        return self.memory[source : source + length].copy()

    def fill(self, lane: int, target: int, length: int, pattern: bytes) -> None:
        self.memory[target : target + length] = pattern[0]

    def copy(self, lane: int, target: int, source: int, length: int) -> None:
        self.memory[target : target + length] = self.memory[source : source + length]

    def drain(self) -> None: ...

    def captured(self, work: Callable[[], None]) -> Callable[[], None]:
        return work

    def seconds(self, launch: Callable[[], None]) -> float:
        before, self.issued = self.issued, []
        launch()
        times = self.loaded if before.count(self.issued[0]) > PAUSELESS else self.times
        seconds = sum(1e-6 * times[entry] for entry in self.issued)
        # What waits for its own launches keeps the load, but does not make it.
        self.issued = before if times is self.loaded and before else self.issued
        return seconds

    def algorithms(self, product: Product, count: int) -> list[tuple[int, ...]]:
        return [ALGORITHM]

    def before(self, lane: int, place: int) -> None: ...

    def launch(self, lane: int, dispatch: Dispatch, pointers: list[int]) -> None:
        self.issued.append(dispatch.entry)
        if dispatch.entry == "refused":
            raise DmcError("device", "does not launch it")
        self.pointers.append(tuple(pointers))
        source, target = (self.memory[each : each + 4 * COUNT].view(np.float32) for each in pointers)
        count = COUNT - 1 if dispatch.entry == "short" else COUNT
        target[:count] = (3 if dispatch.entry == "wrong" else 2) * source[:count]

    def product(self, lane: int, product: Product, pointers: list[int]) -> None:
        self.issued.append(str(product.algorithm))
        self.memory[pointers[2] : pointers[2] + 4 * COUNT].view(np.float32)[:] = 1


def tunable_of(*entries: str) -> Tunable:
    steps = ((Dispatch(each, (1, 1, 1), (1, 1, 1), 0, BINDINGS),) for each in entries)
    made = tuple(Candidate(entry, step, 0) for entry, step in zip(entries, steps, strict=True))
    return Tunable("key", "doubled", (OPERAND,), (OPERAND,), made)


def _tuned(times: dict[str, float], tunable: Tunable) -> tuple[Choice, list[str]]:
    ((key, choice, refused),) = tune(Device(times), Candidates((tunable,), {}))
    assert key == tunable.key
    return choice, refused


def test_the_fastest_that_is_right_is_chosen() -> None:
    times = {"first": 9.0, "fast": 5.0, "wrong": 1.0, "short": 1.0, "refused": 1.0}
    choice, refused = _tuned(times, tunable_of(*times))
    assert (choice.label, choice.us) == ("fast", pytest.approx({"first": 9.0, "fast": 5.0}))
    assert choice.types == "1000xf32 -> 1000xf32"
    assert [each.partition(":")[0] for each in refused] == ["wrong", "short", "refused"]
    assert "differs by 5.0e-01" in refused[0] and "not finite" in refused[1] and "does not launch" in refused[2]


def test_candidates_are_compared_by_one_launch_each() -> None:
    device = Device({})
    found = list(compared(device, Candidates((tunable_of("first", "other", "wrong"),), {})))
    assert [each[:2] for each in found] == [("doubled", label) for label in ("first", "other", "wrong")]
    assert [fact for _, _, fact in found] == [None, None, "result 0 differs by 5.0e-01"]
    assert device.issued == ["first", "other", "wrong"]


def test_each_launch_takes_the_next_of_several_sets() -> None:
    device = Device({"first": 9.0})
    next(tune(device, Candidates((tunable_of("first"),), {})))
    sets = [tuple(device.memory[each : each + 4 * COUNT].tobytes() for each in pair) for pair in set(device.pointers)]
    assert len(sets) == 8 and device.pointers[-2] == device.pointers[-10]
    assert len({operand for operand, _ in sets}) == 8, "data that are in the cache, or alike"


def test_large_operands_repeat_their_data() -> None:
    device, period, rest = Device({"first": 9.0}), 1_048_573, 100
    tunable = replace(tunable_of("first"), reads=(Operand("i1", (period + rest,)),))
    next(tune(device, Candidates((tunable,), {})))
    data, behind = np.split(device.memory[: period + rest + 1], [period + rest])
    assert np.array_equal(data[period:], data[:rest]) and data[:rest].any()
    assert not behind.any()


def test_what_is_hardly_faster_is_not_chosen() -> None:
    assert _tuned({"first": 9.0, "other": 8.9}, tunable_of("first", "other"))[0].label == "first"


def _tuned_under_load(times: dict[str, float], loaded: dict[str, float]) -> str:
    candidates = Candidates((tunable_of(*times),), {})
    ((_, choice, _),) = tune(Device(times, {**times, **loaded}), candidates)
    assert choice.us == pytest.approx(times), "times are those at full clocks"
    return choice.label


def test_among_the_fastest_the_one_that_is_fastest_under_load_is_chosen() -> None:
    times = {"first": 41.0, "hot": 40.0, "cool": 42.0, "slow": 50.0}
    assert _tuned_under_load(times, {"first": 47.0, "hot": 48.0, "cool": 44.0, "slow": 40.0}) == "cool"
    assert _tuned_under_load(times, {"first": 44.5, "hot": 48.0, "cool": 44.0}) == "first", "hardly faster"
    assert _tuned_under_load({**times, "first": 50.0}, {"hot": 48.0, "cool": 44.0}) == "cool", "the first is not near"


def test_what_takes_no_time_is_not_timed_under_load() -> None:
    assert _tuned_under_load({"first": 9.0, "other": 8.5}, {"first": 9.0, "other": 12.0}) == "other"


def test_the_library_is_asked_for_its_algorithms() -> None:
    matrix = Matrix(BINDINGS[0].place, "f32", 1, 10, 100)
    result = replace(matrix, place=BINDINGS[1].place)
    product = Product(matrix, matrix, result, Place("scratch", 0, 0, 64))
    tunable = replace(tunable_of("first"), candidates=(Candidate(HEURISTIC, (product,), 64),))
    choice, _ = _tuned({"()": 9.0, str(ALGORITHM): 5.0}, tunable)
    assert choice.label == label_of(ALGORITHM) and choice.label.startswith("id=66 tile_id=20 splitk_num=1")
    assert algorithm_of(choice.label) == ALGORITHM and algorithm_of(label_of(())) == ()


@pytest.mark.parametrize(
    "label", ["", "id=x", "block=1024 warps=4 stages=2", label_of(ALGORITHM)[1:], label_of(ALGORITHM[:3])]
)
def test_a_damaged_label_is_no_algorithm(label: str) -> None:
    with pytest.raises(ArtifactError, match="not an algorithm of cuBLASLt"):
        algorithm_of(label)


def test_data_are_fresh_and_results_compared_by_their_type() -> None:
    assert not np.array_equal(drawn(OPERAND, 0), drawn(OPERAND, 1))
    assert set(drawn(Operand("i1", (50,)), 0)) == {0, 1}
    assert 8 < drawn(Operand("i64", (50,)), 0, below=10).max() < 10
    ones = np.ones(4, np.float32)
    assert difference(ones, ones + 1e-4, "f32") is None and difference(ones, ones + 0.1, "f32") is not None
    assert difference(ones.astype(np.int64), np.zeros(4, np.int64), "i64") == "differs"
