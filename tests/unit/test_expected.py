"""How much a step may differ from eager's beyond the table of tolerances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dmc.dtypes import Array
from dmc.verification.expected import slack_of
from dmc.verification.reference import Reference
from tests.artifacts import artifact_of
from tests.linear_step import SIGNATURE, initial_state

# A sum of so many terms of one sign may be off by 2⁻¹⁰ of itself.
LONGEST, SHARE = 1 << 14, 2.0**-10
# The changes of a step, and those of one with other roundings: the gradient of the bias is rounding alone.
CHANGES = {"loss": 2.0, "weight": 1.0, "bias": 0.25, "weight.momentum": 0.5, "bias.momentum": 2.0**-20, "seen": 1.0}
OTHERS = CHANGES | {"loss": 2.5, "weight": 1.0 + 2.0**-8, "bias.momentum": -(2.0**-20)}


def _reference(changes: dict[str, float]) -> Reference:
    values: dict[str, Array] = {spec.name: np.full(spec.shape, changes[spec.name], np.float32) for spec in SPECS}
    return Reference({**values, "step": np.array(1)}, (0.1,))


SPECS = [spec for spec in (*SIGNATURE.outputs, *SIGNATURE.state) if spec.name in CHANGES]
# Four times what eager differs by from itself, and the effect of the order of a sum.
PLAIN = {
    "loss": 4 * 0.5 + SHARE * 2.0,
    "weight": 4 * 2.0**-8 + SHARE,
    "weight.momentum": SHARE * 0.5,
    "seen": SHARE,
}
# Beside it, the effect of order on the largest of its kind, and the whole change in either direction.
ROUNDING = {
    "bias.momentum": 4 * 2.0**-19 + SHARE * 2.0**-20 + SHARE * 0.5 + 2 * 2.0**-20,
    "bias": SHARE * 0.25 + SHARE * 1.0 + 2 * 0.25,
}


def test_what_is_rounding_may_be_as_large_as_the_rounding_of_others() -> None:
    artifact = replace(artifact_of(), state=tuple(np.zeros_like(each) for each in initial_state()))
    slack = slack_of(artifact, _reference(CHANGES), [_reference(CHANGES), _reference(OTHERS)], LONGEST)
    expected = PLAIN | ROUNDING
    sizes = {spec.name: int(np.prod(spec.shape)) for spec in SPECS}
    assert {name: each.element for name, each in slack.items() if name in sizes} == pytest.approx(expected)
    norms = {name: each.norm for name, each in slack.items() if name in sizes}
    assert norms == pytest.approx({name: each * sizes[name] ** 0.5 for name, each in expected.items()})
    assert (slack["step"].element, slack["step"].norm) == (0.0, 0.0)
