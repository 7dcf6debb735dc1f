"""Whether what a step gives, whoever computed it, is what eager gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dmc.interpreter.dtypes import Array
from dmc.runtime.difference import NONE, Difference, Slack, difference
from dmc.runtime.signature import Signature, StateSpec, TensorSpec
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
        found = [self.difference(spec, outcome[spec.name]) for spec in (*self.signature.outputs, *self.signature.state)]
        return [each for each in found if each is not None]

    def difference(self, spec: TensorSpec, actual: Array) -> Difference | None:
        """How one tensor differs; what eager has not got, as constants that a loss captures, does not."""
        name = spec.name
        expected = self._state(spec) if isinstance(spec, StateSpec) else self.reference.values.get(name)
        if expected is None:
            return None
        return difference(name, actual, expected, self.tolerance, self.start.get(name), self.slack.get(name, NONE))

    def _state(self, spec: StateSpec) -> Array | None:
        """What a state tensor is in eager."""
        if spec.role == "counter":
            return np.asarray(self.start[spec.name] + 1)
        # Of a slot that eager did not make nothing has happened to the parameter.
        default = self.start[spec.name] if spec.role in ("seed", "optimizer") else None
        return self.reference.values.get(spec.name, default)
