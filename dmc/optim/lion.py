"""Lion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dmc.optim.base import BELOW_ONE, Limits, Optimizer, Slot, lerp

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Lion(Optimizer):
    """Steps of one size in the direction of a momentum, with decoupled decay (Chen et al., 2023, algorithm 2)."""

    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)

    limits: ClassVar[Limits] = {"betas": (0.0, BELOW_ONE)}
    is_counted: ClassVar[bool] = False

    @property
    def is_decoupled(self) -> bool:
        """Always."""
        return True

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The momentum."""
        return (Slot("exp_avg", shape),)

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The sign of the momentum, which is then kept with another weight of the gradient."""
        direction = lerp(slots[0], slope, 1.0 - self.betas[0]).sign()
        return lr * direction, lerp(slots[0], slope, 1.0 - self.betas[1])
