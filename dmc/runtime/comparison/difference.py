"""Whether two computations of one tensor agree, and a description where they do not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from dmc.runtime.comparison.tolerance import Tolerance

Array = NDArray[Any]

# For tensors narrower than f32: the number of roundings allowed, in units in the last place.
_ROUNDINGS, _F32 = 4, 2.0**-23
# Elements compared together: intermediate values stay in the cache of one core.
_PIECE = 1 << 13


@dataclass(frozen=True)
class Slack:
    """Tolerance in addition to the table: an error per element, and one of the norm."""

    element: Any = 0.0
    norm: float = 0.0

    def plus(self, other: Slack) -> Slack:
        """Both."""
        return Slack(self.element + other.element, self.norm + other.norm)


@dataclass(frozen=True)
class Difference:
    """A tensor on which two computations disagree. excess: the error as a multiple of the tolerance."""

    name: str
    fact: str
    excess: float

    def __str__(self) -> str:
        return f"'{self.name}' {self.fact}"


NONE = Slack()


def difference(
    name: str,
    actual: Array,
    expected: Array,
    tolerance: Tolerance,
    start: Array | None = None,
    slack: Slack = NONE,
    whose: str = "eager",
) -> Difference | None:
    """How `actual` differs from `expected`, computed by `whose`; None where it does not.

    start: the value before the step, for state. Integers must be equal; NaN and infinities must be at the same places.
    """
    if actual.shape != expected.shape:
        return Difference(name, f"has shape {actual.shape}, {whose}'s has {expected.shape}", np.inf)
    if not _is_float(expected) or not _is_float(actual):
        return _unequal(name, actual, expected, np.asarray(actual != expected), whose)
    a, b, s = actual, expected, start
    if not (math.isfinite(_extreme(a)) and math.isfinite(_extreme(b))):
        finite = np.isfinite(b)
        odd = ~np.where(finite, np.isfinite(a), (a == b) | (np.isnan(a) & np.isnan(b)))
        if odd.any():
            return _unequal(name, a, b, odd, whose)
        a, b, s, slack = a[finite], b[finite], None if s is None else s[finite], _of(slack, finite)
    return _beyond(name, a, b, s, tolerance, slack, whose)


def pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Arrays of one shape in f64, a block at a time."""
    flat = [array.reshape(-1) for array in arrays]
    for first in range(0, flat[0].size, _PIECE):
        yield tuple(each[first : first + _PIECE].astype(np.float64) for each in flat)


def apart(one: Array, other: Array) -> tuple[float, float]:
    """The largest error of an element, and the norm of all."""
    largest = squares = 0.0
    for a, b in pieces(one, other):
        error = np.subtract(a, b, out=a)
        squares += float(error.dot(error))
        largest = max(largest, _extreme(error))
    return largest, math.sqrt(squares)


def largest_of(array: Array) -> float:
    """The largest finite magnitude; 0 if there is none."""
    largest = _extreme(array)
    return largest if math.isfinite(largest) else _extreme(array[np.isfinite(array)])


def _beyond(
    name: str, a: Array, b: Array, s: Array | None, tolerance: Tolerance, slack: Slack, whose: str
) -> Difference | None:
    """For finite tensors."""
    relative, largest = tolerance.loss if name == "loss" else tolerance.value, _extreme(b)
    # With a type narrower than f32, each operation may have rounded to it, or not where loops are fused.
    eps = float(ml_dtypes.finfo(b.dtype).eps)
    relative = max(relative, _ROUNDINGS * eps) if eps > _F32 else relative
    error, norm = apart(a, b)
    excess, allowed = _excess(a, b, error, relative * largest + tolerance.floor, slack)
    if excess > 1:
        share = f", {error / largest:.3g} of its largest element" if largest else ""
        return Difference(name, f"differs by up to {error:.3g}{share}; {allowed:.3g} is allowed", excess)
    beside = tolerance.floor * b.size**0.5 + slack.norm
    # Most tensors are within the tolerance however small their change.
    if s is None or norm <= eps * largest + beside:
        return None
    nothing = np.broadcast_to(0.0, b.shape)
    (_, change), (_, size), (_, by_element) = apart(b, s), apart(b, nothing), apart(_each(slack, b), nothing)
    # The subtracted value was rounded itself: one unit in the last place per element.
    total = tolerance.change * change + eps * size + beside + by_element
    if norm <= total:
        return None
    share = f", {norm / change:.3g} of its change" if change else f", while {whose}'s does not change"
    return Difference(name, f"changes differently, by {norm:.3g}{share}; {total:.3g} is allowed", norm / total)


def _excess(a: Array, b: Array, error: float, allowed: float, slack: Slack) -> tuple[float, float]:
    """The largest error, `error`, as a multiple of the tolerance there, and the tolerance; (0, 0) if within it."""
    # With zero tolerance, a zero error is no excess and any other is.
    allowed, worst = max(allowed, float(np.finfo(np.float64).tiny)), (0.0, 0.0)
    if error <= allowed:
        return worst
    for one, other, beside in pieces(a, b, _each(slack, b)):
        bound = allowed + beside
        with np.errstate(over="ignore"):
            ratio = np.abs(one - other) / bound
        place = int(ratio.argmax())
        worst = max(worst, (float(ratio[place]), float(bound[place])))
    return worst


def _unequal(name: str, actual: Array, expected: Array, differs: Array, whose: str) -> Difference | None:
    if not differs.any():
        return None
    place = tuple(int(i) for i in np.unravel_index(int(differs.argmax()), differs.shape))
    at = f" at {list(place)}" if place else ""
    count = f", {int(differs.sum())} of {differs.size} elements" if place else ""
    fact = f"is {actual[place]}{at} where {whose}'s is {expected[place]}{count}"
    return Difference(name, fact, np.inf)


def _is_float(array: Array) -> bool:
    # bfloat16 is of numpy's kind "V".
    return array.dtype.kind in "fV"


def _of(slack: Slack, where: Array) -> Slack:
    element: Any = slack.element
    return Slack(element[where], slack.norm) if isinstance(element, np.ndarray) else slack


def _each(slack: Slack, like: Array) -> Array:
    return np.broadcast_to(np.asarray(slack.element), like.shape)


def _extreme(array: Array) -> float:
    """The largest magnitude; not finite if any element is not."""
    with np.errstate(invalid="ignore"):
        return max(float(array.max(initial=0)), -float(array.min(initial=0)))
