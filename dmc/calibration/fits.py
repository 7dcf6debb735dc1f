"""Fits of measured times: latency and bandwidth, what families of kernels attain, and the slowdown of kernels beside
communication. Errors are relative, so that short times count as much as long ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from dmc.machine import Family, Machine, at_peak_ns
from dmc.program import Kernel

# A launch whose time at the peak is so many times less than the floor shows what a launch takes by itself.
_SHORT = 4


@dataclass(frozen=True)
class Line:
    """ns = start + sizes ÷ rate; rate: units of the size per nanosecond."""

    start: float
    rate: float

    @property
    def per_second(self) -> float:
        """The rate per second."""
        return 1e9 * self.rate


def solved(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """x ≥ 0 that brings `rows` @ x closest to `wanted`: least squares, without the columns that would be negative."""
    kept = list(range(rows.shape[1]))
    while True:
        solution, *_ = np.linalg.lstsq(rows[:, kept], wanted, rcond=None)
        if (solution >= 0).all():
            break
        del kept[int(np.argmin(solution))]
    found = np.zeros(rows.shape[1])
    found[kept] = solution
    return found


def line(sizes: Sequence[float], times: Sequence[float]) -> Line:
    """The line through measured times; both lists have an entry per measurement, in nanoseconds."""
    rows = np.array([[1.0, size] for size in sizes]) / np.array(times)[:, None]
    start, per_unit = solved(rows, np.ones(len(times)))
    # Times that do not grow with the size are all start: the largest size bounds the rate.
    return Line(float(start), 1.0 / float(per_unit) if per_unit > 0 else max(sizes) / max(times))


def slowdown(alone: float, beside: float, moving: float) -> float:
    """The factor by which kernels slow down beside a movement: `alone` and `beside` are their times without and with
    movements of `moving` in total, all of which run beside them."""
    lost = min(max(beside - alone, 0.0), 0.9 * moving)
    return moving / (moving - lost)


def families(machine: Machine, samples: Iterable[tuple[Kernel, float]], source: str) -> dict[str, Family]:
    """What each family of kernels attains, from its launches and their measured nanoseconds.

    Together they are predicted to take what they took: a step is their sum.
    """
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for kernel, ns in samples:
        found[kernel.family].append((at_peak_ns(machine, kernel), ns))
    return {name: _family(points, machine.device.launch.ns, source) for name, points in sorted(found.items())}


def _family(points: Sequence[tuple[float, float]], floor: float, source: str) -> Family:
    """A launch's own time from short ones, if there are any, else the device's `floor`; the share from the others."""
    short = [ns for peak, ns in points if peak < floor / _SHORT]
    long = [(peak, ns) for peak, ns in points if peak >= floor / _SHORT]
    start = median(short) if short else floor
    told = f"{source}, {len(points)} launches"
    if not long:
        return Family(1.0, round(start), told)
    # Longer ones hide a part of what a launch takes.
    start = min(start, 0.5 * min(ns for _, ns in long))
    share = sum(peak for peak, _ in long) / sum(ns - start for _, ns in long)
    return Family(round(share, 4), round(start), told)
