"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dmc.optim.base import BELOW_ONE, Limits, Optimizer, Slot, correction, lerp

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015) with decay added to the gradient (`torch.optim.Adam`).

    betas: the shares of the old means of gradients and of their squares, in [0, 1). eps: added to the root of the
    latter. amsgrad: whether the largest mean of squares so far counts.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False

    limits: ClassVar[Limits] = {"betas": (0.0, BELOW_ONE)}

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """The first and second moment; for AMSGrad also the largest second moment so far."""
        moments = (Slot("exp_avg", shape), Slot("exp_avg_sq", shape))
        return (*moments, Slot("max_exp_avg_sq", shape)) if self.amsgrad else moments

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """1 - β₁ᵗ and √(1 - β₂ᵗ)."""
        return correction(count, self.betas[0]), correction(count, self.betas[1]).sqrt()

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The first moment divided by the root of the second, both without their bias to zero."""
        correction1, correction2_sqrt = scalars
        first = lerp(slots[0], slope, 1.0 - self.betas[0])
        second = slots[1] * self.betas[1] + slope * slope * (1.0 - self.betas[1])
        kept = (first, second, slots[2].maximum(second)) if self.amsgrad else (first, second)
        return (lr / correction1) * (first / (kept[-1].sqrt() / correction2_sqrt + self.eps)), *kept


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled decay (`torch.optim.AdamW`)."""

    weight_decay: float = 1e-2

    @property
    def is_decoupled(self) -> bool:
        """Always."""
        return True
