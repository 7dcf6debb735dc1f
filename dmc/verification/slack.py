"""What is allowed beside the table of tolerances: where a right computation is that far from another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dmc.optim import Plan
from dmc.runtime.difference import Slack
from dmc.runtime.tolerance import Tolerance
from dmc.verification.reference import Reference

# How much further a right computation may be from eager than eager from itself.
MARGIN = 4.0


def of_adam(plan: Plan, reference: Reference, tolerance: Tolerance) -> dict[str, Slack]:
    """What rounding in a gradient g does to what Adam makes of it, by parameter.

    Adam goes by m / (√v + ε), so by about the learning rate whatever the size of g: an error δ in g becomes one of
    δ / (√v + ε) rates, and two rates where the sign of g is rounding alone, as that of a key's bias is. The gradient
    itself is compared by Adam's own state.
    """
    slack: dict[str, Slack] = {}
    for name, gradient in reference.gradients.items():
        settings = plan.groups[plan.group_of[name]] if name in plan.group_of else None
        second = reference.values.get(f"{name}.exp_avg_sq")
        if settings is None or second is None:
            continue
        g, v = np.abs(gradient.astype(np.float64)), second.astype(np.float64)
        wrong = tolerance.value * np.max(g, initial=0.0, where=np.isfinite(g)) + tolerance.floor
        count = plan.step + 1
        root = np.sqrt(np.maximum(v, 0.0) / (1 - settings.betas[1] ** count)) + settings.eps
        rates = np.minimum(2.0, wrong * (1 - settings.betas[0]) / (1 - settings.betas[0] ** count) / root)
        slack[name] = Slack(reference.rates[plan.group_of[name]] * rates)
    return slack


def of_noise(reference: Reference, disturbed: Reference) -> dict[str, Slack]:
    """How far eager is from itself when its parameters are rounded otherwise, by tensor."""
    return {name: _apart(value, disturbed.values[name]) for name, value in reference.values.items()}


def joined(one: Mapping[str, Slack], other: Mapping[str, Slack]) -> dict[str, Slack]:
    """Both together."""
    return {name: one.get(name, Slack()).plus(other.get(name, Slack())) for name in {**one, **other}}


def _apart(one: np.ndarray, other: np.ndarray) -> Slack:
    if one.dtype.kind not in "fV":
        return Slack()
    error = np.abs(one.astype(np.float64) - other.astype(np.float64))
    error = error[np.isfinite(error)]
    return Slack(MARGIN * float(error.max(initial=0.0)), MARGIN * float(np.linalg.norm(error)))
