"""NAdam."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmc.optim.base import Slot, correction
from dmc.optim.moments import Moments

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class NAdam(Moments):
    """Adam with Nesterov's momentum (Dozat, 2016; `torch.optim.NAdam`)."""

    lr: float = 2e-3
    momentum_decay: float = 4e-3
    decoupled_weight_decay: bool = False

    @property
    def is_decoupled(self) -> bool:
        """As requested."""
        return self.decoupled_weight_decay

    def slots(self, shape: tuple[int, ...]) -> tuple[Slot, ...]:
        """Also the product of all momenta so far."""
        return *super().slots(shape), Slot("mu_product", (), 1.0, "f32")

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """The momenta of this step and the next, and 1 - β₂ᵗ."""
        return self._momentum(count), self._momentum(count + 1.0), correction(count, self.betas[1])

    def advance(self, numbers: Sequence[Tensor], scalars: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The product with this step's momentum."""
        return (numbers[0] * scalars[0],)

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The gradient and the first moment, each without its bias, divided by the root of the second."""
        momentum, following, correction2, product = scalars
        first, second = self.moments(slope, slots)
        spread = (second / correction2).sqrt() + self.eps
        now, later = lr * (1.0 - momentum) / (1.0 - product), lr * following / (1.0 - product * following)
        return now * (slope / spread) + later * (first / spread), first, second

    def _momentum(self, count: Tensor) -> Tensor:
        decayed = (count * (self.momentum_decay * math.log(0.96))).exp()
        return self.betas[0] * (1.0 - 0.5 * decayed)
