"""The expected outcome of a step, computed by eager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dmc.dtypes import Array
from dmc.program.signature import StateSpec
from dmc.runtime.comparison.difference import Slack, apart
from dmc.runtime.comparison.outcome import Expected
from dmc.runtime.comparison.tolerance import TOLERANCE
from dmc.runtime.files.artifact import Artifact
from dmc.verification.reference import Reference
from dmc.verification.roundings import MARGIN, of_order


def expected_of(artifact: Artifact, reference: Reference) -> Expected:
    """The expected outcome of the first step of `artifact`."""
    specs = artifact.signature.state
    start = {spec.name: array for spec, array in zip(specs, artifact.state, strict=True)}
    outputs = {spec.name: reference.values.get(spec.name) for spec in artifact.signature.outputs}
    state = {spec.name: _state(spec, start, reference) for spec in specs}
    # Constants captured by a loss, for example, have no counterpart in eager.
    known = {name: array for name, array in {**outputs, **state}.items() if array is not None}
    return Expected(known, specs, start, max(reference.rates), TOLERANCE[artifact.precision])


def slack_of(
    artifact: Artifact, reference: Reference, disturbed: Sequence[Reference], longest: int
) -> dict[str, Slack]:
    """The tolerance in addition to the table, by tensor.

    How far eager is from itself when it is rounded differently, in each of `disturbed`; and the largest effect of
    the order of a sum of `longest` terms: longest · 2⁻²⁴ of it, where all have one sign (Higham, Accuracy and Stability
    of Numerical Algorithms, 4.2), but never more than `LONGEST_SUM`. Eager sums pairwise, a loop sequentially. A sum
    that cancels to rounding, as the gradient of a bias before batch norm, has terms as large as others: the share is
    then of the largest change of its kind.
    """
    specs = artifact.signature.state
    starts = {spec.name: array for spec, array in zip(specs, artifact.state, strict=True)}
    slack = {
        name: _of_rounding(value, *(each.values[name] for each in disturbed)).plus(
            of_a_sum(value, starts.get(name), longest)
        )
        for name, value in reference.values.items()
    }
    largest = _largest_changes(specs, starts, reference)
    noise = {
        name
        for name, value in reference.values.items()
        if name in starts and is_rounding(value, starts[name], *(each.values[name] for each in disturbed))
    }
    # Where what an optimizer keeps of a gradient is rounding, so is the change of the parameter.
    noise |= {spec.name.rpartition(".")[0] for spec in specs if spec.role == "optimizer" and spec.name in noise}
    for spec in specs:
        if spec.name in noise and spec.name in slack:
            value, start = reference.values[spec.name], starts[spec.name]
            each = of_order(longest) * largest[_kind(spec)]
            # Adam makes whole steps of what rounding leaves, in either direction.
            change, norm = _apart(value, start)
            either = Slack(2 * change, 2 * norm)
            slack[spec.name] = slack[spec.name].plus(Slack(each, each * value.size**0.5)).plus(either)
    return slack


def is_rounding(value: Array, start: Array, *disturbed: Array) -> bool:
    """Whether eager's change of a tensor may be rounding alone: `MARGIN` times what other rounding moves it."""
    if value.dtype.kind not in "fV":
        return False
    (_, change), (_, noise) = _apart(value, start), _farthest(value, disturbed)
    return noise > 0 and MARGIN * noise >= change


def of_a_sum(value: Array, start: Array | None, terms: int) -> Slack:
    """The effect of the order of so many terms on a tensor; for state, which was `start`, the sum is the change."""
    if value.dtype.kind not in "fV":
        return Slack()
    before = np.broadcast_to(np.zeros((), value.dtype), value.shape) if start is None else start
    share, (largest, norm) = of_order(terms), _apart(value, before)
    return Slack(share * largest, share * norm)


def _largest_changes(
    specs: Sequence[StateSpec], starts: Mapping[str, Array], reference: Reference
) -> Mapping[str, float]:
    """The largest change of an element, by kind."""
    largest: dict[str, float] = {}
    for spec in specs:
        value = reference.values.get(spec.name)
        if value is not None and value.dtype.kind in "fV":
            largest[_kind(spec)] = max(largest.get(_kind(spec), 0.0), _apart(value, starts[spec.name])[0])
    return largest


def _kind(spec: StateSpec) -> str:
    """Parameters, or slots of one name of the optimizer."""
    return spec.name.rpartition(".")[2] if spec.role == "optimizer" else spec.role


def _state(spec: StateSpec, start: dict[str, Array], reference: Reference) -> Array | None:
    if spec.role == "counter":
        return np.asarray(start[spec.name] + spec.mutated)
    # Without a slot in eager, the parameter has not been updated.
    return reference.values.get(spec.name, start[spec.name] if spec.role in ("seed", "optimizer") else None)


def _of_rounding(one: Array, *others: Array) -> Slack:
    if one.dtype.kind not in "fV":
        return Slack()
    largest, norm = _farthest(one, others)
    return Slack(MARGIN * largest, MARGIN * norm)


def _farthest(one: Array, others: Sequence[Array]) -> tuple[float, float]:
    largest, norms = zip(*(_apart(one, other) for other in others), strict=True)
    return max(largest), max(norms)


def _apart(one: Array, other: Array) -> tuple[float, float]:
    """The largest error, and the norm of the finite ones."""
    finite = np.isfinite(one) & np.isfinite(other)
    return apart(one[finite], other[finite])
