"""Whether what a step gives, whoever computed it, is what eager gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dmc.interpreter.dtypes import Array
from dmc.runtime.difference import NONE, Difference, Slack, difference
from dmc.runtime.signature import Signature, StateSpec
from dmc.runtime.tolerance import Tolerance
from dmc.verification.reference import Reference

# Outputs and state behind a step, by their names in its signature.
Outcome = Mapping[str, Array]


@dataclass(frozen=True)
class Judge:
    """Compares outcomes of a step with eager's.

    start: the state before the step. slack: by name, what is allowed beside the tolerance.
    """

    reference: Reference
    signature: Signature
    start: Mapping[str, Array]
    tolerance: Tolerance
    slack: Mapping[str, Slack] = field(default_factory=dict)

    def differences(self, outcome: Outcome) -> list[Difference]:
        """Every tensor that differs from eager's: outputs, then state."""
        expected = {spec.name: self.reference.values.get(spec.name) for spec in self.signature.outputs}
        expected |= {spec.name: self._state(spec) for spec in self.signature.state}
        # Constants that a loss captures, say, are not known to be eager's.
        found = [self.difference(name, outcome[name], value) for name, value in expected.items() if value is not None]
        return [each for each in found if each is not None]

    def difference(self, name: str, actual: Array, expected: Array) -> Difference | None:
        """How one tensor differs."""
        return difference(name, actual, expected, self.tolerance, self.start.get(name), self.slack.get(name, NONE))

    def _state(self, spec: StateSpec) -> Array | None:
        """What a state tensor is in eager."""
        if spec.role == "counter":
            return np.asarray(self.start[spec.name] + 1)
        # Of a slot that eager did not make nothing has happened to the parameter.
        default = self.start[spec.name] if spec.role in ("seed", "optimizer") else None
        return self.reference.values.get(spec.name, default)
