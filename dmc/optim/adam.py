"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmc.optim.base import Slot, correction
from dmc.optim.moments import Moments

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Adam(Moments):
    """Adam (Kingma and Ba, 2015) with decay added to the gradient (`torch.optim.Adam`).

    betas: the shares of the old means of gradients and of their squares, in [0, 1). eps: added to the root of the
    latter. amsgrad: whether the largest mean of squares so far counts.
    """

    lr: float = 1e-3
    amsgrad: bool = False

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """For AMSGrad also the largest second moment so far."""
        largest = (Slot("max_exp_avg_sq", shape),) if self.amsgrad else ()
        return *super().slots(shape), *largest

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """1 - β₁ᵗ and √(1 - β₂ᵗ)."""
        return correction(count, self.betas[0]), correction(count, self.betas[1]).sqrt()

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The first moment divided by the root of the second, both without their bias to zero."""
        correction1, correction2_sqrt = scalars
        first, second = self.moments(slope, slots)
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
