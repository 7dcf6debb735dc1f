"""What the rules of Adam's family share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dmc.optim.base import BELOW_ONE, Limits, Optimizer, Slot, lerp

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Moments(Optimizer):
    """Optimizers that keep means of gradients and of their squares."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    limits: ClassVar[Limits] = {"betas": (0.0, BELOW_ONE)}

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The first and second moment."""
        return Slot("exp_avg", shape), Slot("exp_avg_sq", shape)

    def moments(self, slope: Tensor, slots: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Both, with this step's gradient."""
        first = lerp(slots[0], slope, 1.0 - self.betas[0])
        # Scaled first, as in eager: the square may be too large.
        return first, slots[1] * self.betas[1] + slope * (1.0 - self.betas[1]) * slope
