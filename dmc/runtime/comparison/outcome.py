"""The expected outcome of a step, tensor by tensor, and where another computation of it differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dmc.program.signature import StateSpec
from dmc.runtime.comparison.difference import Array, Difference, Slack, difference, largest_of
from dmc.runtime.comparison.tolerance import Tolerance

# The number of tensors that an error names.
SHOWN = 4
# Optimizer state that is zero up to rounding may differ by this share of the largest of its kind.
_OF_ITS_KIND = 1e-5
_FIRST_MOMENT = ".exp_avg"


@dataclass(frozen=True)
class Expected:
    """values: the expected outputs and state, by name. whose: who computed them.

    specs: of the state. start: the state before the step. rate: the largest learning rate. slack: by name, allowed in
    addition to the tolerance.
    """

    values: Mapping[str, Array]
    specs: tuple[StateSpec, ...]
    start: Mapping[str, Array]
    rate: float
    tolerance: Tolerance
    whose: str = "eager"
    slack: Mapping[str, Slack] = field(default_factory=dict)

    def differences(self, actual: Mapping[str, Array]) -> list[Difference]:
        """Every tensor of `actual` that is not as expected; tensors without an expected value are skipped."""
        floors = self._floors()
        found = [self._of(name, actual[name], floors) for name in self.values if name in actual]
        return [each for each in found if each is not None]

    def _of(self, name: str, actual: Array, floors: Mapping[str, float]) -> Difference | None:
        tolerance = replace(self.tolerance, floor=floors.get(name, self.tolerance.floor))
        slack, value, start = self.slack.get(name, Slack()), self.values[name], self.start.get(name)
        found = difference(name, actual, value, tolerance, start, slack, self.whose)
        # It allows more and costs the most, so it is consulted last.
        if found is None or (mean := self.values.get(f"{name}{_FIRST_MOMENT}")) is None:
            return found
        return difference(name, actual, value, tolerance, start, slack.plus(self._of_adam(mean)), self.whose)

    def _floors(self) -> dict[str, float]:
        """For optimizer state, which may be small everywhere: a share of the largest of its kind, if that is less."""
        slots = [spec.name for spec in self.specs if spec.role == "optimizer" and spec.name in self.values]
        largest: dict[str, float] = {}
        for name in slots:
            kind = name.rpartition(".")[2]
            largest[kind] = max(largest.get(kind, 0.0), largest_of(self.values[name]))
        return {name: min(self.tolerance.floor, _OF_ITS_KIND * largest[name.rpartition(".")[2]]) for name in slots}

    def _of_adam(self, mean: Array) -> Slack:
        """The effect on a parameter of rounding in the first moment m.

        Adam's update is about the learning rate, whatever the size of m: an error δ in m changes it by up to δ / |m| of
        that, or twice the rate where the sign of m is pure rounding, as for a key's bias. m itself is compared, too.
        """
        size = np.abs(mean.astype(np.float64))
        wrong = self.tolerance.value * largest_of(mean) + self.tolerance.floor
        return Slack(self.rate * np.minimum(2.0, wrong / np.maximum(size, np.finfo(np.float64).tiny)))


def shown(found: Sequence[Difference]) -> str:
    """The first of many differences, one per line."""
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return "\n  ".join([*map(str, found[:SHOWN]), *more])
