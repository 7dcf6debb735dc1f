"""RAdam."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dmc.optim.base import correction
from dmc.optim.moments import Moments

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class RAdam(Moments):
    """Adam whose variance is rectified in the first steps (Liu et al., 2020; `torch.optim.RAdam`)."""

    lr: float = 1e-3
    decoupled_weight_decay: bool = False

    @property
    def is_decoupled(self) -> bool:
        """As requested."""
        return self.decoupled_weight_decay

    def scalars(self, count: Tensor, lr: Tensor) -> tuple[Tensor, ...]:
        """The rate; the rectification, with the correction of the second moment; whether it is used."""
        length, longest = self.average_length(count), 2.0 / (1.0 - self.betas[1]) - 1.0
        of_longest = longest / ((longest - 4.0) * (longest - 2.0)) if longest > 4.0 else 0.0
        is_long = length > 5.0
        squared = ((length - 4.0) * (length - 2.0) / length * of_longest).where(is_long, count.new_ones([]))
        root = correction(count, self.betas[1]).sqrt()
        return lr / correction(count, self.betas[0]), squared.sqrt() * root, is_long

    def update(
        self, old: Tensor, slope: Tensor, slots: Sequence[Tensor], lr: Tensor, scalars: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """The first moment, divided by the root of the second as soon as that can be estimated."""
        rate, rectified, is_long = scalars
        first, second = self.moments(slope, slots)
        step = rate * first
        return (step * (rectified / (second.sqrt() + self.eps))).where(is_long, step), first, second

    def average_length(self, count: Tensor) -> Tensor:
        """The length of the moving average, 2 / (1 - β) - 1 - 2t βᵗ / (1 - βᵗ), without the difference of its large
        terms: in f32 that would have no digit left.

        With x = -t log β it is c + t (2 / x - 2 / (eˣ - 1)), where c is 2 / (1 - β) - 1 + 2 / log β.
        """
        beta = self.betas[1]
        # Without a moving average PyTorch divides by zero.
        if beta == 0.0:
            return count.new_ones([])
        x = count * -math.log(beta)
        # The series of Bernoulli numbers, where the quotients nearly cancel.
        near = 1.0 - x / 6.0 + x**3 / 360.0 - x**5 / 15120.0 + x**7 / 604800.0
        far = 2.0 / x - 2.0 / x.expm1()
        return count * near.where(x < 1.0, far) + (2.0 / (1.0 - beta) - 1.0 + 2.0 / math.log(beta))
