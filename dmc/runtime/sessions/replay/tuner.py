"""Times the candidates of kernels on a GPU: each right first, on fresh data and poisoned results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from dmc.dtypes import dtype_of
from dmc.errors import DmcError
from dmc.program import Lane, Launch, Operand, Program, Range, aligned
from dmc.program.code import DeviceCode, Product
from dmc.program.kernel import types_of
from dmc.program.tuning import HEURISTIC, Candidate, Candidates, Choice, Tunable, label_of
from dmc.runtime.sessions.replay.issue import issue

# Sets of operands and results that together are more than the device's cache holds, but no more than so many.
_FRESH, _MOST_SETS = 256 << 20, 8
_LAUNCHES, _ROUNDS = 10, 3
_ALGORITHMS = 16
# Another candidate than the first must be faster by so much to be chosen.
_GAIN = 0.98
# Those within this factor of the fastest are timed under load, if they take so many microseconds: launched without a
# pause for so many seconds, and only then timed.
_NEAR, _LONG, _LOADED = 1.1, 20.0, 0.1
# Of a graph that is launched under load.
_GRAPH_US = 5e3
# Norm of the difference from the first candidate's result ÷ norm of that, where sums are added in another order.
_TOLERANCE = {"f32": 5e-3, "bf16": 2e-2, "f16": 5e-3, "f64": 1e-9}
# Random numbers are repeated in memory after so many, which is no multiple of any size of tiles.
_PERIOD = 1_048_573
# Of a large result so many pieces of so many bytes are compared; tiles are cut alike everywhere.
_PIECES, _PIECE = 64, 1 << 19
_LANES = (Lane("compute", "compute"),)


@dataclass(frozen=True)
class Room:
    """Where operands, results and scratch of a kernel lie in one set."""

    reads: tuple[Range, ...]
    writes: tuple[Range, ...]
    scratch: Range

    @staticmethod
    def of(tunable: Tunable, scratch: int, start: int) -> Room:
        """The ranges from byte `start` on."""
        ranges: list[Range] = []
        for size in (*map(_bytes, (*tunable.reads, *tunable.writes)), max(scratch, 1)):
            ranges.append(Range("device", start, size))
            start += aligned(size)
        count = len(tunable.reads)
        return Room(tuple(ranges[:count]), tuple(ranges[count:-1]), ranges[-1])

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return aligned(self.scratch.end)


def compared(device: Any, candidates: Candidates) -> Iterator[tuple[str, str, str | None]]:
    """Kernel and label of each candidate, each launched once, and how its results differ from the first one's; None
    where they are as good. For tools that watch what code does. Needs the device for itself. Raises DmcError for a
    candidate that does not launch.
    """
    code = _loaded(device, candidates.tunables, candidates)
    for tunable in candidates.tunables:
        for label, wrong in _Bench(device, code, tunable).compared():
            yield tunable.kernel, label, wrong


def tune(device: Any, candidates: Candidates) -> Iterator[tuple[str, Choice, list[str]]]:
    """The key and the choice of each kernel, and what was refused, as they are known. Needs the device for itself."""
    tunables = [_with_algorithms(device, each) for each in candidates.tunables]
    code = _loaded(device, tunables, candidates)
    for tunable in tunables:
        choice, refused = _Bench(device, code, tunable).choose()
        yield tunable.key, choice, refused


def _loaded(device: Any, tunables: Sequence[Tunable], candidates: Candidates) -> DeviceCode:
    kernels = {_name(tunable, each): each.steps for tunable in tunables for each in tunable.candidates}
    code = DeviceCode(candidates.modules, kernels)
    device.prepare(1, code)
    return code


def _with_algorithms(device: Any, tunable: Tunable) -> Tunable:
    """With the algorithms that the library has for a product."""
    (first, *_) = tunable.candidates
    if first.label != HEURISTIC:
        return tunable
    (product,) = first.steps
    assert isinstance(product, Product)
    found = [replace(product, algorithm=each) for each in device.algorithms(product, _ALGORITHMS)]
    others = (Candidate(label_of(each.algorithm), (each,), first.scratch) for each in found)
    return replace(tunable, candidates=(first, *others))


def _name(tunable: Tunable, candidate: Candidate) -> str:
    return f"{tunable.key} {candidate.label}"


def _bytes(operand: Operand) -> int:
    return math.prod(operand.shape) * dtype_of(operand.dtype).numpy.itemsize


class _Bench:
    """Memory for the candidates of one kernel, filled with random operands."""

    def __init__(self, device: Any, code: DeviceCode, tunable: Tunable) -> None:
        self._device, self._code, self._tunable = device, code, tunable
        scratch = max(each.scratch for each in tunable.candidates)
        size = Room.of(tunable, scratch, 0).end
        sets = min(_MOST_SETS, -(-_FRESH // size))
        self._rooms = [Room.of(tunable, scratch, index * size) for index in range(sets)]
        self._memory = device.allocate(sets * size)
        self._bases: dict[Any, int] = {"device": self._memory.ptr}
        for seed, room in enumerate(self._rooms):
            for number, (operand, where) in enumerate(zip(tunable.reads, room.reads, strict=True)):
                self._fill(operand, where, 100 * seed + number)

    def choose(self) -> tuple[Choice, list[str]]:
        """The fastest of those that are right, and why others are refused.

        A step holds a GPU at its power limit, where clocks are lower the more energy a kernel takes. So what is chosen
        among the fastest is the fastest under load. The times are those at full clocks.
        """
        first, *others = self._tunable.candidates
        wanted = self._results(first)
        times = {first.label: self._microseconds(first)}
        refused: list[str] = []
        for each in others:
            try:
                wrong = self._difference(each, wanted)
                if wrong is None:
                    times[each.label] = self._microseconds(each)
            except DmcError as error:
                wrong = error.fact
            if wrong is not None:
                refused.append(f"{each.label}: {wrong}")
        label = self._fastest(times)
        types = types_of(self._tunable.reads, self._tunable.writes)
        return Choice(self._tunable.kernel, types, label, times), refused

    def _fastest(self, times: Mapping[str, float]) -> str:
        """The label of the fastest under load. times: of those that are right, in µs."""
        first, least = self._tunable.candidates[0].label, min(times.values())
        near = [each for each in self._tunable.candidates if times.get(each.label, math.inf) <= _NEAR * least]
        loaded = {each.label: times[each.label] for each in near}
        if len(near) > 1 and least >= _LONG:
            loaded = {each.label: self._under_load(each, times[each.label]) for each in near}
        best = min(loaded, key=loaded.__getitem__)
        return first if first in loaded and loaded[best] >= _GAIN * loaded[first] else best

    def compared(self) -> Iterator[tuple[str, str | None]]:
        """The label of each candidate, and how its results differ from those of the first."""
        first = self._tunable.candidates[0]
        wanted = self._results(first)
        for each in self._tunable.candidates:
            yield each.label, None if each is first else self._difference(each, wanted)

    def _issue(self, candidate: Candidate, rooms: Sequence[Room]) -> None:
        name = _name(self._tunable, candidate)
        launches = (Launch(0, name, room.reads, room.writes, room.scratch) for room in rooms)
        issue(Program(0, {}, _LANES, (), tuple(launches)), self._code, self._bases, self._device)

    def _results(self, candidate: Candidate) -> list[np.ndarray]:
        """What it makes of the first set; what it does not write is NaN, or -1."""
        room = self._rooms[0]
        for where in (*room.writes, room.scratch):
            self._device.fill(0, self._memory.ptr + where.offset, where.length, b"\xff")
        self._issue(candidate, self._rooms[:1])
        self._device.drain()
        made = zip(self._tunable.writes, room.writes, strict=True)
        return [self._sampled(where).view(dtype_of(operand.dtype).numpy) for operand, where in made]

    def _sampled(self, where: Range) -> np.ndarray:
        """The bytes of a range or, of a large one, of so many pieces from its beginning to its end."""
        at = self._memory.ptr + where.offset
        if where.length <= _PIECE * _PIECES:
            return self._device.download(at, where.length)
        starts = np.linspace(0, where.length - _PIECE, _PIECES, dtype=np.int64)
        # All types have at most 8 bytes.
        return np.concatenate([self._device.download(at + start // 8 * 8, _PIECE) for start in starts.tolist()])

    def _difference(self, candidate: Candidate, wanted: Sequence[np.ndarray]) -> str | None:
        """How its results differ from those of the first candidate; None where they are as good."""
        for number, (made, right) in enumerate(zip(self._results(candidate), wanted, strict=True)):
            if (fact := difference(made, right, self._tunable.writes[number].dtype)) is not None:
                return f"result {number} {fact}"
        return None

    def _microseconds(self, candidate: Candidate) -> float:
        launch = self._captured(candidate, _LAUNCHES)
        self._device.seconds(launch)
        return self._median(launch, _LAUNCHES)

    def _under_load(self, candidate: Candidate, microseconds: float) -> float:
        """The time of a launch once clocks are what its power allows; `microseconds`: at full clocks."""
        count = max(_LAUNCHES, round(_GRAPH_US / microseconds))
        launch = self._captured(candidate, count)
        for _ in range(math.ceil(_LOADED * 1e6 / (count * microseconds))):
            launch()
        return self._median(launch, count)

    def _captured(self, candidate: Candidate, count: int) -> Callable[[], None]:
        """Returns a function that enqueues so many launches, cycling over the sets of operands."""
        rooms = [self._rooms[index % len(self._rooms)] for index in range(count)]
        return self._device.captured(lambda: self._issue(candidate, rooms))

    def _median(self, launch: Callable[[], None], count: int) -> float:
        seconds = statistics.median(self._device.seconds(launch) for _ in range(_ROUNDS))
        return round(1e6 * seconds / count, 2)

    def _fill(self, operand: Operand, where: Range, seed: int) -> None:
        """Random numbers, repeated."""
        sizes = [size for each in (*self._tunable.reads, *self._tunable.writes) for size in each.shape]
        # Integers are places in something: mostly in the longest dimension, as of tokens and classes.
        data = drawn(operand, seed, below=max(sizes, default=1)).tobytes()
        start = self._memory.ptr + where.offset
        self._device.upload(start, data[: where.length])
        done = min(len(data), where.length)
        while done < where.length:
            # What is there already is copied behind itself.
            length = min(done, where.length - done)
            self._device.copy(0, start + done, start, length)
            done += length


def drawn(operand: Operand, seed: int, below: int = 128) -> np.ndarray:
    """Normal numbers, truth values that mostly hold, or integers `below` a number; no more than the period has."""
    random = np.random.default_rng(seed)
    dtype, count = dtype_of(operand.dtype).numpy, min(math.prod(operand.shape), _PERIOD)
    if operand.dtype == "i1":
        return (random.random(count) < 0.9).astype(dtype)
    if operand.dtype.startswith("i"):
        return random.integers(0, min(below, np.iinfo(dtype).max), count).astype(dtype)
    return random.standard_normal(count, np.float32).astype(dtype)


def difference(made: np.ndarray, wanted: np.ndarray, dtype: str) -> str | None:
    """How numbers differ by more than rounding; None where they do not."""
    if dtype not in _TOLERANCE:
        return None if np.array_equal(made, wanted) else "differs"
    one, other = made.astype(np.float32), wanted.astype(np.float32)
    finite = np.isfinite(other)
    if not np.array_equal(np.isfinite(one), finite):
        return "is not finite where it should be, or finite where it should not"
    with np.errstate(all="ignore"):
        error = float(np.linalg.norm(one[finite] - other[finite]) / max(float(np.linalg.norm(other[finite])), 1e-30))
    return None if error <= _TOLERANCE[dtype] else f"differs by {error:.1e}"
