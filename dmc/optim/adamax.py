"""Adamax."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dmc.optim.base import BELOW_ONE, Limits, Optimizer, Slot, correction, lerp

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Adamax(Optimizer):
    """Adam with the infinity norm (Kingma and Ba, 2015, section 7; `torch.optim.Adamax`)."""

    lr: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    limits: ClassVar[Limits] = {"betas": (0.0, BELOW_ONE)}

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The first moment, and the norm."""
        return Slot("exp_avg", shape), Slot("exp_inf", shape)

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """The learning rate divided by 1 - β₁ᵗ."""
        return (lr / correction(count, self.betas[0]),)

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The first moment divided by the norm."""
        first = lerp(slots[0], slope, 1.0 - self.betas[0])
        norm = (slots[1] * self.betas[1]).maximum(slope.abs() + self.eps)
        return scalars[0] * (first / norm), first, norm
