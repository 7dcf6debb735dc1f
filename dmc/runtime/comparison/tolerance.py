"""How much two correct computations of one training step may differ: one table, with a reason per line.

Two numbers are checked for each tensor, because each alone can miss an error. The *value* must agree relative to the
largest element of the tensor. The *change* since the start must agree relative to its own norm: a layer norm's weights
stay near one, so an entirely wrong gradient would still leave the value right within a thousandth.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """Bounds for one tensor b and another computation's a, both starting from s.

    loss: |a - b| / |b| of each step's loss. value: max|a - b| / max|b|. change: ‖(a - s) - (b - s)‖ / ‖b - s‖.
    floor: an absolute error per element that is always allowed, for tensors that are zero up to rounding.
    """

    loss: float
    value: float
    change: float
    floor: float
    reason: str


# By the precision of a step.
TOLERANCE = {
    "fp32": Tolerance(
        loss=1e-5,
        value=1e-4,
        change=1e-3,
        floor=2e-7,
        reason="Sums are computed in another order. Eager in float32 differs from eager in float64 by up to 5e-7 of "
        "the "
        "value after five SGD steps (1e-5 with batch norm, which divides by small variances). The floor is two units "
        "of rounding at 1: a key's bias has no gradient in exact arithmetic, so its value is pure rounding.",
    ),
    "bf16-mixed": Tolerance(
        loss=2e-3,
        value=1e-2,
        change=2.5e-2,
        floor=1e-4,
        reason="bfloat16 keeps eight bits (rounding 0.4 %), and the last bit depends on where values are rounded: "
        "autocast rounds between operations that a compiled step fuses. After five steps autocast itself is up to "
        "0.8 % of a tensor's change away from float32; the tolerance is three times that.",
    ),
    "bf16": Tolerance(
        loss=2e-2,
        value=1e-2,
        change=1.5e-1,
        floor=2e-3,
        reason="Parameters are kept in bfloat16, so each update of one is rounded to 0.4 % of the parameter: with "
        "updates of about one percent, two correct runs differ by up to a tenth of the change.",
    ),
}
