"""Whether two computations of one tensor agree, and what to say where they do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from dmc.runtime.tolerance import Tolerance

Array = NDArray[Any]


# Roundings to the type of a tensor that is narrower than f32, whose unit in the last place is this.
_ROUNDINGS, _F32 = 4, 2.0**-23


@dataclass(frozen=True)
class Slack:
    """What is allowed beside the table: an error of each element, and one of the norm of all."""

    element: Any = 0.0
    norm: float = 0.0

    def plus(self, other: Slack) -> Slack:
        """Both."""
        return Slack(self.element + other.element, self.norm + other.norm)


@dataclass(frozen=True)
class Difference:
    """A tensor on which two computations do not agree. excess: the error in units of what is allowed."""

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
    """How `actual` differs from `expected`, which is `whose`; None where it does not.

    start: what both were before the step, of state. Integers must be equal; NaN and infinities must be where they are.
    """
    if actual.shape != expected.shape:
        return Difference(name, f"is of shape {actual.shape}, {whose}'s of {expected.shape}", np.inf)
    if not _is_float(expected) or not _is_float(actual):
        return _unequal(name, actual, expected, np.asarray(actual != expected), whose)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    odd = ~np.where(finite, np.isfinite(a), (a == b) | (np.isnan(a) & np.isnan(b)))
    if odd.any():
        return _unequal(name, a, b, odd, whose)
    s = None if start is None else start.astype(np.float64)
    eps = float(ml_dtypes.finfo(expected.dtype).eps)
    kept = None if s is None else s[finite]
    return _beyond(name, a[finite], b[finite], kept, tolerance, _of(slack, finite), eps, whose)


def _beyond(
    name: str, a: Any, b: Any, s: Any, tolerance: Tolerance, slack: Slack, eps: float, whose: str
) -> Difference | None:
    if not b.size:
        return None
    error, largest = np.abs(a - b), np.abs(b).max()
    relative = tolerance.loss if name == "loss" else tolerance.value
    # Of a type narrower than f32 every operation on the way may have rounded so, or may not, where loops are fused.
    relative = max(relative, _ROUNDINGS * eps) if eps > _F32 else relative
    # Where nothing is allowed, nothing is no excess and anything is.
    bound = np.maximum(relative * largest + tolerance.floor + slack.element, np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        ratio = error / bound
    excess = float(ratio.max())
    if excess > 1:
        share = f", {error.max() / largest:.3g} of its largest element" if largest else ""
        allowed = float(np.broadcast_to(bound, error.shape).reshape(-1)[ratio.argmax()])
        return Difference(name, f"differs by up to {error.max():.3g}{share}; {allowed:.3g} is allowed", excess)
    if s is None:
        return None
    change, apart = float(np.linalg.norm(b - s)), float(np.linalg.norm(a - b))
    # What is subtracted was rounded itself: one unit in the last place of each element.
    rounding = eps * np.linalg.norm(b) + tolerance.floor * b.size**0.5
    total = tolerance.change * change + rounding + slack.norm + np.linalg.norm(np.broadcast_to(slack.element, b.shape))
    if apart <= total:
        return None
    share = f", {apart / change:.3g} of its change" if change else f", and {whose}'s does not change"
    return Difference(name, f"changes otherwise, by {apart:.3g}{share}; {total:.3g} is allowed", float(apart / total))


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
